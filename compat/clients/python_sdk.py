"""The Python SDK (`mcp`) as a client, by URL or by command: does what the job says,
prints what came of it."""

import asyncio
import json
import sys
import time

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

MODES = {"auto": "auto", "legacy": "legacy", "modern": "2026-07-28"}


async def done(connect, job):
    """Lists and calls, over the transport that `connect` gives."""
    heard = []

    async def on_log(message):
        heard.append({"kind": "log", "at": time.monotonic()})

    async def on_progress(progress, total, message):
        heard.append({"kind": f"progress {progress:g}", "at": time.monotonic()})

    async def on_question(context, params):
        [field] = params.requested_schema["properties"]
        return ElicitResult(action="accept", content={field: "compat"})

    handlers = {"logging_callback": on_log, "log_level": "debug", "elicitation_callback": on_question}
    async with Client(connect, mode=MODES[job["mode"]], **handlers) as client:
        listed = await client.list_tools()
        answers = []
        for call in job["calls"]:
            heard.clear()
            result = await client.call_tool(call["tool"], call["arguments"], progress_callback=on_progress)
            end = time.monotonic()
            text = "\n".join(part.text for part in result.content if part.type == "text")
            before = [{"kind": one["kind"], "seconds": end - one["at"]} for one in heard]
            answers.append({"text": text, "error": bool(result.is_error), "heard": before})
        return {
            "revision": str(client.protocol_version),
            "tools": [tool.name for tool in listed.tools],
            "answers": answers,
        }


async def main(job):
    if "command" in job:
        command, *arguments = job["command"]
        return await done(stdio_client(StdioServerParameters(command=command, args=arguments)), job)
    headers = {"Authorization": f"Bearer {job['token']}"} if job.get("token") else {}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        return await done(streamable_http_client(job["url"], http_client=http), job)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
