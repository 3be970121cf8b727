// The TypeScript SDK, version 2 (both eras): does what the job says, prints what came of it.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { accept, capabilities, carryOut, connect } from './typescript.mjs';

const MODES = { auto: 'auto', legacy: 'legacy', modern: { pin: '2026-07-28' } };
// How a request of the modern era asks for log messages; servers of the other pay no heed to it.
const _meta = { 'io.modelcontextprotocol/logLevel': 'debug' };
const job = JSON.parse(process.argv[2]);
const transport = connect(job, StdioClientTransport, StreamableHTTPClientTransport);
const versionNegotiation = { mode: MODES[job.mode] };
const client = new Client({ name: 'sluice-compat', version: '1' }, { capabilities, versionNegotiation });
client.setRequestHandler('elicitation/create', accept);
const on = {
  log: (listener) => client.setNotificationHandler('notifications/message', listener),
  progress: (listener) => client.setNotificationHandler('notifications/progress', listener),
};
await carryOut(client, transport, job, on, (params, options) => client.callTool({ ...params, _meta }, options));
