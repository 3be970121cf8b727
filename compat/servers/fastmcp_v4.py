"""A server made with fastmcp, version 4 (both eras). Over streamable HTTP it answers
with event streams, as fastmcp does unless it is configured otherwise."""

import asyncio
import os
import sys

from fastmcp import Context, FastMCP
from fastmcp.server.elicitation import AcceptedElicitation
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = FastMCP("fastmcp-v4")
QUESTION = "What is your name?"
SCHEMA = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}


@server.tool
async def work(ctx: Context) -> str:
    """Reports its progress, pauses, reports again, and answers."""
    await ctx.info("work has begun")
    await ctx.report_progress(1, 2)
    await asyncio.sleep(1)
    await ctx.report_progress(2, 2)
    return "the work is done"


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


@server.tool
def count() -> str:
    """Is limited by the policy."""
    return "counted"


@server.tool
def remove() -> str:
    """Is denied by the policy."""
    return "removed"


@server.tool
def secret() -> str:
    """Is hidden by the policy."""
    return "secret"


if "stdio" in sys.argv:
    server.run("stdio", show_banner=False)
else:
    server.run("http", port=int(os.environ["PORT"]), show_banner=False, log_level="warning")
