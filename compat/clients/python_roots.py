"""The Python SDK (`mcp`) as a client that starts `server-filesystem` and gives it
roots: calls what the job says, prints what came of it."""

import asyncio
import json
import sys
import time
from pathlib import Path

from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(job):
    async def roots(_context):
        return types.ListRootsResult(roots=[types.Root(uri=Path(root).as_uri()) for root in job["roots"]])

    command, *arguments = job["command"]
    transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    async with Client(transport, mode="legacy", list_roots_callback=roots) as client:
        await roots_are_taken(client, job["roots"])
        results = [await client.call_tool(call["tool"], call["arguments"]) for call in job["calls"]]
        return {"answers": [{"text": text(result), "error": bool(result.is_error)} for result in results]}


def text(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


async def roots_are_taken(client, roots):
    """Waits until the server goes by the roots, for which it asks in its own time."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        allowed = text(await client.call_tool("list_allowed_directories", {}))
        if all(root in allowed.splitlines() for root in roots):
            return
        await asyncio.sleep(0.1)
    print("the server does not go by the roots", file=sys.stderr)


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
