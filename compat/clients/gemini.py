"""Gemini CLI: has the server in its settings, and says whether it reaches it."""

import json
import os
import sys

from health import check, said

job = json.loads(sys.argv[1])
gemini = ["node", os.path.realpath(f"{os.environ['COMPAT_MODULES']}/.bin/gemini")]
# Servers of a folder that is not trusted are not asked.
os.environ["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
os.chdir(os.environ["HOME"])
if "command" in job:
    # `gemini mcp add` would swallow the `--` that `sluice wrap` needs.
    command, *arguments = job["command"]
    os.makedirs(".gemini", exist_ok=True)
    with open(".gemini/settings.json", "w") as file:
        json.dump({"mcpServers": {"gate": {"command": command, "args": arguments}}}, file)
else:
    header = f"Authorization: Bearer {job['token']}"
    said([*gemini, "mcp", "add", "--scope", "user", "--transport", "http", "--header", header, "gate", job["url"]])
check([*gemini, "mcp", "list"], "Connected")
