"""A server made with fastmcp, version 4 (both eras). Over streamable HTTP it answers
with event streams, as fastmcp does unless it is configured otherwise."""

import os
import sys

from fastmcp import Context, FastMCP
from fastmcp.server.elicitation import AcceptedElicitation
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from judged_tools import register

server = FastMCP("fastmcp-v4")
register(server, Context)
QUESTION = "What is your name?"
SCHEMA = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}


@server.tool
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks the client for a name, and greets it."""
    if ctx.request_context.protocol_version < "2026-07-28":
        result = await ctx.elicit(QUESTION, str)
        return f"hello {result.data}" if isinstance(result, AcceptedElicitation) else result.action
    # A server of the modern era asks by an answer, and the client calls again.
    given = (ctx.input_responses or {}).get("name")
    if given is None:
        question = ElicitRequestFormParams(message=QUESTION, requested_schema=SCHEMA)
        return InputRequiredResult(input_requests={"name": ElicitRequest(params=question)})
    return f"hello {given.content['value']}" if given.action == "accept" else given.action


if "stdio" in sys.argv:
    server.run("stdio", show_banner=False)
else:
    server.run("http", port=int(os.environ["PORT"]), show_banner=False, log_level="warning")
