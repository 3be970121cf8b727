"""`mcp-remote` as a bridge: a client on standard streams before it, the gateway behind it."""

import json
import os
import sys

from lines import Lines

job = json.loads(sys.argv[1])
bridge = ["node", f"{os.environ['COMPAT_MODULES']}/mcp-remote/dist/proxy.js", job["url"]]
# As `sluice grant create` prints it for Claude Desktop.
os.environ["AUTH"] = f"Bearer {job['token']}"
lines = Lines([*bridge, "--transport", "http-only", "--allow-http", "--header", "Authorization:${AUTH}"])


def ask(method, params):
    return lines.ask(method, params, jsonrpc="2.0")


hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "sluice-compat", "version": "1"}}
revision = ask("initialize", hello)["protocolVersion"]
lines.say(jsonrpc="2.0", method="notifications/initialized")
tools = [tool["name"] for tool in ask("tools/list", {})["tools"]]
answers = []
for call in job["calls"]:
    result = ask("tools/call", {"name": call["tool"], "arguments": call["arguments"]})
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    answers.append({"text": text, "error": result.get("isError", False)})
lines.close()
print(json.dumps({"revision": revision, "tools": tools, "answers": answers}))
