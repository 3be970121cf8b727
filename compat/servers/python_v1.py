"""A server made with the Python SDK, version 1 (legacy era). Over streamable HTTP it
answers with event streams, as the SDK does unless it is configured otherwise."""

import asyncio
import os
import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("python-v1", port=int(os.environ.get("PORT", "0")), log_level="WARNING")


class Name(BaseModel):
    name: str


@server.tool()
async def work(ctx: Context) -> str:
    """Reports its progress, pauses, reports again, and answers."""
    await ctx.info("work has begun")
    await ctx.report_progress(1, 2)
    await asyncio.sleep(1)
    await ctx.report_progress(2, 2)
    return "the work is done"


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the client for a name, and greets it."""
    result = await ctx.elicit("What is your name?", Name)
    return f"hello {result.data.name}" if result.action == "accept" else result.action


@server.tool()
def count() -> str:
    """Is limited by the policy."""
    return "counted"


@server.tool()
def remove() -> str:
    """Is denied by the policy."""
    return "removed"


@server.tool()
def secret() -> str:
    """Is hidden by the policy."""
    return "secret"


server.run("stdio" if "stdio" in sys.argv else "streamable-http")
