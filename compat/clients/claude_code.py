"""Claude Code: adds the server, and calls its tools as a double of the model asks it to."""

import json
import os
import sys

from model import Anthropic, Model, said

job = json.loads(sys.argv[1])
claude = ["node", f"{os.environ['COMPAT_MODULES']}/@anthropic-ai/claude-code/cli-wrapper.cjs"]
os.chdir(os.environ["HOME"])
if "command" in job:
    server = ["gate", "--", *job["command"]]
else:
    server = ["--transport", "http", "gate", job["url"], "--header", f"Authorization: Bearer {job['token']}"]
said([*claude, "mcp", "add", *server])
with Model(Anthropic(), job["calls"]) as model:
    env = {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "compat",
        # All tools are to be in each request, instead of being searched for.
        "ENABLE_TOOL_SEARCH": "false",
        # It waits for the server before its first request.
        "MCP_CONNECTION_NONBLOCKING": "false",
        "MCP_CONNECT_TIMEOUT_MS": "30000",
    }
    prompt = ["--print", "Do your work.", "--model", "compat", "--allowedTools", "mcp__gate"]
    said([*claude, *prompt], **env)
    print(json.dumps(model.said()))
