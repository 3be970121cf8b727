"""The Python SDK as a client of the HTTP+SSE transport: lists, calls, and prints
what came of it."""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client


async def main(job):
    headers = {"Authorization": f"Bearer {job['token']}"}
    async with sse_client(job["url"], headers=headers) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        listed = await session.list_tools()
        errors = []
        for tool in job["calls"]:
            arguments = {"message": "x"} if tool.endswith("echo") else {}
            result = await session.call_tool(tool, arguments)
            if result.is_error:
                errors.append(tool)
        return {"tools": [tool.name for tool in listed.tools], "errors": errors}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
