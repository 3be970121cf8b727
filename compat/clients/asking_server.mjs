// The TypeScript SDK, version 1 (legacy era), as a server whose tools ask their
// client: `ask` on the stream of the call, `ask-beside` on that of the session.
import { randomUUID } from 'node:crypto';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import express from 'express';

const params = {
  message: 'Who are you?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
};

function answered({ action }) {
  return { content: [{ type: 'text', text: `the client said ${action}` }] };
}

function server() {
  const made = new McpServer({ name: 'asking', version: '1' });
  made.registerTool('ask', { description: 'Ask on the stream of the call' }, async (extra) =>
    answered(await extra.sendRequest({ method: 'elicitation/create', params }, ElicitResultSchema)),
  );
  made.registerTool('ask-beside', { description: 'Ask on the stream of the session' }, async () =>
    answered(await made.server.elicitInput(params)),
  );
  return made;
}

const transports = new Map();
const app = express();
app.use(express.json());
app.all('/mcp', async (request, response) => {
  let transport = transports.get(request.headers['mcp-session-id']);
  if (!transport) {
    if (request.body?.method !== 'initialize') {
      response.status(request.headers['mcp-session-id'] ? 404 : 400).json({
        jsonrpc: '2.0', id: null, error: { code: -32000, message: 'Bad Request: no session' },
      });
      return;
    }
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => transports.set(id, transport),
    });
    await server().connect(transport);
  }
  await transport.handleRequest(request, response, request.body);
});
app.listen(Number(process.env.PORT), '127.0.0.1');
