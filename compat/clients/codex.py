"""Codex: its app server connects to MCP servers and says what tools it found."""

import json
import os
import sys

from lines import Lines

job = json.loads(sys.argv[1])
codex = ["node", os.path.realpath(f"{os.environ['COMPAT_MODULES']}/.bin/codex")]
os.chdir(os.environ["HOME"])
os.makedirs(".codex", exist_ok=True)
with open(".codex/config.toml", "w") as file:
    file.write("[mcp_servers.gate]\n")
    if "command" in job:
        # JSON is TOML, for texts and lists of texts.
        command, *arguments = job["command"]
        file.write(f"command = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n")
    else:
        # As `sluice grant create` prints it.
        headers = f'http_headers = {{ Authorization = "Bearer {job["token"]}" }}'
        file.write(f'url = "{job["url"]}"\n{headers}\n')
lines = Lines([*codex, "app-server"])
lines.ask("initialize", {"clientInfo": {"name": "sluice-compat", "title": "sluice-compat", "version": "1"}})
lines.say(method="initialized")
status = lines.ask("mcpServerStatus/list", {})
lines.close()
gate = next((server for server in status["data"] if server["name"] == "gate"), None)
if not gate or not gate["tools"]:
    sys.exit(f"it found no tools: {json.dumps(status)[:2000]}")
print(json.dumps({"tools": sorted(gate["tools"])}))
