"""A server made with the Python SDK, version 1 (legacy era). Over streamable HTTP it
answers with event streams, as the SDK does unless it is configured otherwise."""

import os
import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

from judged_tools import register

server = FastMCP("python-v1", port=int(os.environ.get("PORT", "0")), log_level="WARNING")
register(server, Context)


class Name(BaseModel):
    name: str


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the client for a name, and greets it."""
    result = await ctx.elicit("What is your name?", Name)
    return f"hello {result.data.name}" if result.action == "accept" else result.action


server.run("stdio" if "stdio" in sys.argv else "streamable-http")
