"""Claude Code: adds the server, and says whether it reaches it."""

import json
import os
import sys

from health import check

job = json.loads(sys.argv[1])
claude = ["node", f"{os.environ['COMPAT_MODULES']}/@anthropic-ai/claude-code/cli-wrapper.cjs"]
header = f"Authorization: Bearer {job['token']}"
os.chdir(os.environ["HOME"])
add = [*claude, "mcp", "add", "--transport", "http", "gate", job["url"], "--header", header]
check(add, [*claude, "mcp", "list"], "Connected")
