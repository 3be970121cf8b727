// The TypeScript SDK, version 2, as a server over standard input and output that
// speaks the modern era and refuses the legacy one. Its tool `greet` asks for a name.
import { McpServer, acceptedContent, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const params = {
  message: 'Who are you?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
};

serveStdio(
  () => {
    const server = new McpServer({ name: 'modern', version: '1' }, { capabilities: { tools: {} } });
    server.registerTool('greet', { description: 'Greets the user by name' }, async (context) => {
      const who = acceptedContent(context.mcpReq.inputResponses, 'who');
      if (!who) return inputRequired({ inputRequests: { who: inputRequired.elicit(params) } });
      return { content: [{ type: 'text', text: `hello ${who.name}` }] };
    });
    server.registerTool('forbidden', { description: 'Never to be called' }, async () => ({
      content: [{ type: 'text', text: 'called' }],
    }));
    return server;
  },
  { legacy: 'reject' },
);
