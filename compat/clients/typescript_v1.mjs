// The TypeScript SDK, version 1 (legacy era): does what the job says, prints what came of it.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ProgressNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { accept, capabilities, carryOut, connect } from './typescript.mjs';

const job = JSON.parse(process.argv[2]);
const transport = connect(job, StdioClientTransport, StreamableHTTPClientTransport);
const client = new Client({ name: 'sluice-compat', version: '1' }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, accept);
const on = {
  log: (listener) => client.setNotificationHandler(LoggingMessageNotificationSchema, listener),
  progress: (listener) => client.setNotificationHandler(ProgressNotificationSchema, listener),
};
await carryOut(client, transport, job, on, (params, options) => client.callTool(params, undefined, options));
