"""The Inspector's command line as a client: one invocation a request."""

import json
import os
import subprocess
import sys

LAUNCHER = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def target(job):
    """The options that name the server: its URL, or a file that has its command."""
    if "command" not in job:
        header = f"Authorization: Bearer {job['token']}"
        return [job["url"], "--transport", "http", "--header", header]
    command, *arguments = job["command"]
    with open("servers.json", "w") as file:
        json.dump({"mcpServers": {"gate": {"command": command, "args": arguments}}}, file)
    return ["--config", os.path.abspath("servers.json"), "--server", "gate"]


def request(job, *what):
    """The result of one request."""
    command = ["node", f"{os.environ['COMPAT_MODULES']}/{LAUNCHER}", "--cli", *target(job), *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{' '.join(what)} ended with {done.returncode}: {done.stdout}{done.stderr}")


def called(job, call):
    arguments = [f"{name}={json.dumps(value) if not isinstance(value, str) else value}"
                 for name, value in call["arguments"].items()]
    flags = [part for argument in arguments for part in ("--tool-arg", argument)]
    result = request(job, "--method", "tools/call", "--tool-name", call["tool"], *flags)
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    return {"text": text, "error": result.get("isError", False)}


job = json.loads(sys.argv[1])
tools = [tool["name"] for tool in request(job, "--method", "tools/list")["tools"]]
print(json.dumps({"tools": tools, "answers": [called(job, call) for call in job["calls"]]}))
