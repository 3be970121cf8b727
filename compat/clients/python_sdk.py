"""The Python SDK (`mcp`) as a client: does what the job says, prints what came of it."""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

MODES = {"auto": "auto", "legacy": "legacy", "modern": "2026-07-28"}


async def done(client, job):
    """Lists and calls, over whatever the client is connected by."""
    listed = await client.list_tools()
    answers = []
    for call in job["calls"]:
        result = await client.call_tool(call["tool"], call["arguments"])
        text = "\n".join(part.text for part in result.content if part.type == "text")
        answers.append({"text": text, "error": bool(result.is_error)})
    return {
        "revision": str(client.protocol_version),
        "tools": [tool.name for tool in listed.tools],
        "answers": answers,
    }


async def main(job):
    headers = {"Authorization": f"Bearer {job['token']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(job["url"], http_client=http)
        async with Client(transport, mode=MODES[job["mode"]]) as client:
            return await done(client, job)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
