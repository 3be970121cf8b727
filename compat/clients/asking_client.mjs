// The TypeScript SDK, version 2, in the modern era, as a client that is asked: makes
// many calls at once, answers what the server wants, and prints how each call ended.
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const job = JSON.parse(process.argv[2]);
const requestInit = { headers: { Authorization: `Bearer ${job.token}` } };
const transport = new StreamableHTTPClientTransport(new URL(job.url), { requestInit });
const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const versionNegotiation = { mode: { pin: '2026-07-28' } };
const client = new Client({ name: 'sluice-compat', version: '1' }, { capabilities, versionNegotiation });

// A person takes some time, one more than another, so that calls end while others wait.
let asked = 0;
function answering(result) {
  return async () => {
    asked += 1;
    await sleep(20 * (asked % 10));
    return result;
  };
}
const content = { name: 'Ada', check: true, firstLine: 'It was', email: 'ada@example.com' };
const message = { role: 'assistant', content: { type: 'text', text: 'sampled' }, model: 'none' };
client.setRequestHandler('elicitation/create', answering({ action: 'accept', content }));
client.setRequestHandler('sampling/createMessage', answering(message));
client.setRequestHandler('roots/list', answering({ roots: [{ uri: 'file:///srv' }] }));

await client.connect(transport);
await client.listTools();

// How one call ended, of which each begins a little after the one before. A call that is not over in time has hung.
async function outcome({ tool, arguments: args }, number) {
  await sleep(11 * number);
  const started = Date.now();
  try {
    const result = await client.callTool({ name: tool, arguments: args }, { timeout: job.milliseconds });
    const text = result.content.map((part) => part.text ?? '').join('\n');
    return { tool, took: Date.now() - started, error: result.isError === true, text };
  } catch (error) {
    return { tool, took: Date.now() - started, thrown: String(error) };
  }
}

const calls = job.calls.map(outcome);
console.log(JSON.stringify({ outcomes: await Promise.all(calls), asked }));
process.exit(0);
