"""Gemini CLI: adds the server, and says whether it reaches it."""

import json
import os
import sys

from health import check

job = json.loads(sys.argv[1])
modules = os.environ["COMPAT_MODULES"]
gemini = ["node", os.path.realpath(f"{modules}/.bin/gemini")]
header = f"Authorization: Bearer {job['token']}"
# Servers of a folder that is not trusted are not asked.
os.environ["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
os.chdir(os.environ["HOME"])
add = [*gemini, "mcp", "add", "--scope", "user", "--transport", "http", "--header", header, "gate", job["url"]]
check(add, [*gemini, "mcp", "list"], "Connected")
