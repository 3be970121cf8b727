"""`fastmcp` as a client, by URL or by command: does what the job says, prints what
came of it."""

import asyncio
import json
import sys
import time

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


def transport(job):
    if "command" in job:
        command, *arguments = job["command"]
        return StdioTransport(command, arguments)
    headers = {"Authorization": f"Bearer {job['token']}"} if job.get("token") else {}
    return StreamableHttpTransport(job["url"], headers=headers)


async def main(job):
    heard = []

    async def on_log(message):
        heard.append({"kind": "log", "at": time.monotonic()})

    async def on_progress(progress, total, message):
        heard.append({"kind": f"progress {progress:g}", "at": time.monotonic()})

    async def on_question(message, response_type, params, context):
        [field] = params.requested_schema["properties"]
        return {field: "compat"}

    handlers = {"log_handler": on_log, "progress_handler": on_progress, "elicitation_handler": on_question}
    async with Client(transport(job), **handlers) as client:
        tools = [tool.name for tool in await client.list_tools()]
        answers = []
        for call in job["calls"]:
            heard.clear()
            result = await client.call_tool(call["tool"], call["arguments"], raise_on_error=False)
            end = time.monotonic()
            text = "\n".join(part.text for part in result.content if part.type == "text")
            before = [{"kind": one["kind"], "seconds": end - one["at"]} for one in heard]
            answers.append({"text": text, "error": bool(result.is_error), "heard": before})
        return {"tools": tools, "answers": answers}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
