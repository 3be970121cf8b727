// The TypeScript SDK, version 1 (legacy era): does what the job says, prints what came of it.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { carryOut } from './typescript.mjs';

const job = JSON.parse(process.argv[2]);
const requestInit = { headers: { Authorization: `Bearer ${job.token}` } };
const transport = new StreamableHTTPClientTransport(new URL(job.url), { requestInit });
const client = new Client({ name: 'sluice-compat', version: '1' });
await carryOut(client, transport, job);
