"""Claude Code: adds the server, and says whether it reaches it."""

import json
import os
import sys

from health import check, said

job = json.loads(sys.argv[1])
claude = ["node", f"{os.environ['COMPAT_MODULES']}/@anthropic-ai/claude-code/cli-wrapper.cjs"]
os.chdir(os.environ["HOME"])
if "command" in job:
    server = ["gate", "--", *job["command"]]
else:
    server = ["--transport", "http", "gate", job["url"], "--header", f"Authorization: Bearer {job['token']}"]
said([*claude, "mcp", "add", *server])
check([*claude, "mcp", "list"], "Connected")
