"""The Python SDK (`mcp`) as a client that starts a command: does what the job
says, prints what came of it."""

import asyncio
import json
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from python_sdk import MODES, done


async def main(job):
    command, *arguments = job["command"]
    transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    async with Client(transport, mode=MODES[job["mode"]]) as client:
        return await done(client, job)


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
