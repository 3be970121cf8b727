// The TypeScript SDK, version 2 (both eras): does what the job says, prints what came of it.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { carryOut } from './typescript.mjs';

const MODES = { auto: 'auto', legacy: 'legacy', modern: { pin: '2026-07-28' } };
const job = JSON.parse(process.argv[2]);
const requestInit = { headers: { Authorization: `Bearer ${job.token}` } };
const transport = new StreamableHTTPClientTransport(new URL(job.url), { requestInit });
const versionNegotiation = { mode: MODES[job.mode] };
const client = new Client({ name: 'sluice-compat', version: '1' }, { capabilities: {}, versionNegotiation });
await carryOut(client, transport, job);
