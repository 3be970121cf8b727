"""The Python SDK (`mcp`) as a legacy client whose very first request is a call, and that
answers what the server asks it meanwhile, or gives the call up after `patience` seconds."""

import asyncio
import contextlib
import json
import sys

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult


@contextlib.asynccontextmanager
async def transport(job):
    if "command" in job:
        command, *arguments = job["command"]
        yield stdio_client(StdioServerParameters(command=command, args=arguments))
        return
    headers = {"Authorization": f"Bearer {job['token']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        yield streamable_http_client(job["url"], http_client=http)


async def main(job):
    asked = []

    async def answer(_, question):
        asked.append(question.message)
        return ElicitResult(action="accept", content=job.get("answer", {}))

    texts = []
    async with (
        transport(job) as connection,
        Client(connection, mode="legacy", elicitation_callback=answer) as client,
    ):
        for call in job["calls"]:
            patience = call.get("patience", 20)
            try:
                result = await client.call_tool(call["tool"], call["arguments"], patience)
                texts.append("\n".join(part.text for part in result.content if part.type == "text"))
            except Exception as error:
                texts.append(f"given up: {error}")
    return {"asked": asked, "texts": texts}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
