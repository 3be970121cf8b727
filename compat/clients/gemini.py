"""Gemini CLI: has the server in its settings, and calls its tools as a double of the
model asks it to."""

import json
import os
import sys

from model import Google, Model, said

job = json.loads(sys.argv[1])
gemini = ["node", os.path.realpath(f"{os.environ['COMPAT_MODULES']}/.bin/gemini")]
os.chdir(os.environ["HOME"])
settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
if "command" in job:
    # `gemini mcp add` would swallow the `--` that `sluice wrap` needs.
    command, *arguments = job["command"]
    settings["mcpServers"] = {"gate": {"command": command, "args": arguments, "trust": True}}
os.makedirs(".gemini", exist_ok=True)
with open(".gemini/settings.json", "w") as file:
    json.dump(settings, file)
with Model(Google(), job["calls"]) as model:
    env = {
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_API_KEY": "compat",
        # Servers of a folder that is not trusted are not asked.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    if "url" in job:
        add = ["mcp", "add", "--scope", "user", "--trust", "--transport", "http"]
        said([*gemini, *add, "--header", f"Authorization: Bearer {job['token']}", "gate", job["url"]], **env)
    said([*gemini, "--prompt", "Do your work.", "--model", "gemini-2.5-pro"], **env)
    print(json.dumps(model.said()))
