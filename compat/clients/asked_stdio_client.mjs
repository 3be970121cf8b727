// The TypeScript SDK, version 1 (legacy era), as a client that starts a command
// and can be asked: does what the job says, prints what came of it.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const job = JSON.parse(process.argv[2]);
const [command, ...args] = job.command;
const transport = new StdioClientTransport({ command, args, env: process.env });
const capabilities = { elicitation: {} };
const client = new Client({ name: 'sluice-compat', version: '1' }, { capabilities });
const answer = { action: 'accept', content: { name: 'Ada' } };
client.setRequestHandler(ElicitRequestSchema, async () => answer);
await client.connect(transport);
const { tools } = await client.listTools();
const answers = [];
for (const call of job.calls) {
  const result = await client.callTool({ name: call.tool, arguments: call.arguments });
  const text = result.content.filter((part) => part.type === 'text').map((part) => part.text);
  answers.push({ text: text.join('\n'), error: result.isError === true });
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), answers }));
await client.close();
