"""`fastmcp` as a client: does what the job says, prints what came of it."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def main(job):
    headers = {"Authorization": f"Bearer {job['token']}"}
    async with Client(StreamableHttpTransport(job["url"], headers=headers)) as client:
        tools = [tool.name for tool in await client.list_tools()]
        answers = []
        for call in job["calls"]:
            result = await client.call_tool(call["tool"], call["arguments"], raise_on_error=False)
            text = "\n".join(part.text for part in result.content if part.type == "text")
            answers.append({"text": text, "error": bool(result.is_error)})
        return {"tools": tools, "answers": answers}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
