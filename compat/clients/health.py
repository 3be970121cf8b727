"""Clients that can be asked, without a model, whether they reach a server."""

import json
import subprocess
import sys


def check(listing, healthy):
    """Asks for the health of the server that the client has by the name of `gate`."""
    status = said(listing)
    line = next((line for line in status.splitlines() if line.lstrip("✓✗ ").startswith("gate: ")), "")
    if healthy not in line:
        sys.exit(f"it does not say `{healthy}`: {status}")
    print(json.dumps({"connected": True}))


def said(command):
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr
