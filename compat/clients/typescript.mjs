// What both versions of the TypeScript SDK have in common.

export async function carryOut(client, transport, job) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const answers = [];
  for (const { tool, arguments: args } of job.calls) {
    const result = await client.callTool({ name: tool, arguments: args });
    const text = result.content.filter((part) => part.type === 'text').map((part) => part.text);
    answers.push({ text: text.join('\n'), error: result.isError === true });
  }
  const revision = transport.protocolVersion ?? null;
  console.log(JSON.stringify({ revision, tools: tools.map((tool) => tool.name), answers }));
  await transport.terminateSession?.();
  await client.close();
}
