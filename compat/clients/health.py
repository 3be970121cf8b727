"""Clients that can be asked, without a model, whether they reach a server."""

import json
import subprocess
import sys


def check(add, listing, healthy):
    """Adds the server to the client's own configuration, and asks for its health."""
    said(add)
    status = said(listing)
    line = next((line for line in status.splitlines() if "gate" in line and "http" in line), "")
    if healthy not in line:
        sys.exit(f"it does not say `{healthy}`: {status}")
    print(json.dumps({"connected": True}))


def said(command):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr
