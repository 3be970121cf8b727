"""Codex: has the server in its configuration, and calls its tools as a double of the
model asks it to."""

import json
import os
import sys

from model import Model, OpenAi, said

CONFIG = """model = "compat"
model_provider = "compat"
approval_policy = "never"

[model_providers.compat]
name = "compat"
base_url = "{url}/v1"
wire_api = "responses"

[mcp_servers.gate]
default_tools_approval_mode = "approve"
required = true
startup_timeout_sec = 30
"""


def entry(job):
    if "command" in job:
        # JSON is TOML, for texts and lists of texts.
        command, *arguments = job["command"]
        return f"command = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    # As `sluice grant create` prints it.
    headers = f'http_headers = {{ Authorization = "Bearer {job["token"]}" }}'
    return f'url = "{job["url"]}"\n{headers}\n'


def answers(printed):
    """What the calls answered; Codex prints an event a line."""
    for line in printed.splitlines():
        item = json.loads(line).get("item", {})
        if item.get("type") == "mcp_tool_call" and item["status"] != "in_progress":
            parts = (item["result"] or {}).get("content", [item["error"]])
            text = "\n".join(part.get("text") or part.get("message", "") for part in parts)
            yield {"text": text, "error": item["status"] == "failed"}


job = json.loads(sys.argv[1])
codex = ["node", os.path.realpath(f"{os.environ['COMPAT_MODULES']}/.bin/codex")]
os.chdir(os.environ["HOME"])
os.makedirs(".codex", exist_ok=True)
with Model(OpenAi(), job["calls"]) as model:
    with open(".codex/config.toml", "w") as file:
        file.write(CONFIG.format(url=model.url) + entry(job))
    printed = said([*codex, "exec", "--skip-git-repo-check", "--json", "Do your work."])
    print(json.dumps({"tools": model.tools, "answers": list(answers(printed))}))
