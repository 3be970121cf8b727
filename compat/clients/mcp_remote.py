"""`mcp-remote` as a bridge: a client on standard streams before it, the gateway behind it."""

import json
import os
import sys
import time

from lines import Lines

job = json.loads(sys.argv[1])
heard = []


def hear(message):
    kinds = {"notifications/message": "log", "notifications/progress": "progress {progress:g}"}
    if kind := kinds.get(message["method"]):
        heard.append((kind.format(**message["params"]), time.monotonic()))


def answer(message):
    [field] = message["params"]["requestedSchema"]["properties"]
    return {"action": "accept", "content": {field: "compat"}}


def ask(method, params):
    return lines.ask(method, params, jsonrpc="2.0")


def called(number, call):
    heard.clear()
    meta = {"progressToken": number}
    result = ask("tools/call", {"name": call["tool"], "arguments": call["arguments"], "_meta": meta})
    end = time.monotonic()
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    before = [{"kind": kind, "seconds": end - at} for kind, at in heard]
    return {"text": text, "error": result.get("isError", False), "heard": before}


bridge = ["node", f"{os.environ['COMPAT_MODULES']}/mcp-remote/dist/proxy.js", job["url"]]
# As `sluice grant create` prints it for Claude Desktop.
os.environ["AUTH"] = f"Bearer {job['token']}"
bridge += ["--transport", "http-only", "--allow-http", "--header", "Authorization:${AUTH}"]
lines = Lines(bridge, hear=hear, answer=answer)
client = {"name": "sluice-compat", "version": "1"}
hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client}
revision = ask("initialize", hello)["protocolVersion"]
lines.say(jsonrpc="2.0", method="notifications/initialized")
tools = [tool["name"] for tool in ask("tools/list", {})["tools"]]
answers = [called(number, call) for number, call in enumerate(job["calls"])]
lines.close()
print(json.dumps({"revision": revision, "tools": tools, "answers": answers}))
