// What both versions of the TypeScript SDK have in common.

// What a client declares, so that servers may ask it.
export const capabilities = { elicitation: { form: {} } };

export function accept({ params }) {
  const [field] = Object.keys(params.requestedSchema.properties);
  return { action: 'accept', content: { [field]: 'compat' } };
}

// Lists and calls. `on.log` and `on.progress` let a listener hear notifications, and
// `call(params, options)` calls a tool: the two versions differ in these.
export async function carryOut(client, transport, job, on, call) {
  let heard = [];
  const hear = (kind) => heard.push({ kind, at: performance.now() });
  on.log(() => hear('log'));
  // Not by `onprogress`: where progress and the answer come in one read, both
  // versions forget the call before they hand over its progress.
  on.progress(({ params }) => hear(`progress ${params.progress}`));
  await client.connect(transport);
  const { tools } = await client.listTools();
  const answers = [];
  for (const { tool, arguments: args } of job.calls) {
    heard = [];
    const result = await call({ name: tool, arguments: args }, { onprogress: () => {} });
    const end = performance.now();
    const text = result.content.filter((part) => part.type === 'text').map((part) => part.text);
    const before = heard.map(({ kind, at }) => ({ kind, seconds: (end - at) / 1000 }));
    answers.push({ text: text.join('\n'), error: result.isError === true, heard: before });
  }
  const revision = transport.protocolVersion ?? client.getNegotiatedProtocolVersion?.() ?? null;
  console.log(JSON.stringify({ revision, tools: tools.map((tool) => tool.name), answers }));
  await transport.terminateSession?.();
  await client.close();
}

// The transport to a server that is reached by command or by URL and token.
export function connect(job, Stdio, Http) {
  if (job.command) {
    const [command, ...args] = job.command;
    return new Stdio({ command, args });
  }
  const headers = job.token ? { Authorization: `Bearer ${job.token}` } : {};
  return new Http(new URL(job.url), { requestInit: { headers } });
}
