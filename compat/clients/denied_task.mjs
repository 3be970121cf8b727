// The TypeScript SDK, version 1, as a client that wants a task made of a call:
// prints what it shows of it.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const job = JSON.parse(process.argv[2]);
const requestInit = { headers: { Authorization: `Bearer ${job.token}` } };
const transport = new StreamableHTTPClientTransport(new URL(job.url), { requestInit });
const client = new Client({ name: 'sluice-compat', version: '1' });
await client.connect(transport);
await client.listTools();
const shown = [];
const call = { name: job.tool, arguments: job.arguments };
const stream = client.experimental.tasks.callToolStream(call, undefined, { task: { ttl: 60_000 } });
for await (const message of stream) {
  const { type, error, result } = message;
  shown.push({ type, text: error ? error.message : JSON.stringify(result ?? message.task), code: error?.code });
}
console.log(JSON.stringify({ shown }));
await client.close();
