"""A server made with the Python SDK, version 2 (both eras). Over streamable HTTP it
answers with event streams, as the SDK does unless it is configured otherwise."""

import asyncio
import os
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("python-v2", log_level="WARNING")


class Name(BaseModel):
    name: str


def asked() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
async def work(ctx: Context) -> str:
    """Reports its progress, pauses, reports again, and answers."""
    await ctx.info("work has begun")
    await ctx.report_progress(1, 2)
    await asyncio.sleep(1)
    await ctx.report_progress(2, 2)
    return "the work is done"


@server.tool()
async def ask(answer: Annotated[Name, Resolve(asked)]) -> str:
    """Asks the client for a name, and greets it."""
    return f"hello {answer.name}"


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


if "stdio" in sys.argv:
    server.run("stdio")
else:
    server.run("streamable-http", port=int(os.environ["PORT"]))
