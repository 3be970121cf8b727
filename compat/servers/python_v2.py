"""A server made with the Python SDK, version 2 (both eras). Over streamable HTTP it
answers with event streams, as the SDK does unless it is configured otherwise."""

import os
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel

from judged_tools import register

server = MCPServer("python-v2", log_level="WARNING")
register(server, Context)


class Name(BaseModel):
    name: str


def asked() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
async def ask(answer: Annotated[Name, Resolve(asked)]) -> str:
    """Asks the client for a name, and greets it."""
    return f"hello {answer.name}"


if "stdio" in sys.argv:
    server.run("stdio")
else:
    server.run("streamable-http", port=int(os.environ["PORT"]))
