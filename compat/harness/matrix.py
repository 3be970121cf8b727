"""`docs/reference/compatibility.md`: what was tried and what came of it."""

import difflib
import re
from pathlib import Path

HEAD = """# Compatibility

Which clients and servers of others work with Sluicegate, as tried by `make compat`, which is part of `make test`.
Made on {date}; the versions are pinned in [`compat/`](../../compat/README.md).

## Clients

Each connects with a token, to the server that is built in and to `server-everything` over streamable HTTP; in mode *modern* with `bridge = "modern"`, because that server speaks only the legacy era.
*Listed*: the tools that its policy shows, and none that it hides.
*Called*: an allowed call passes.
*Denied*: a denied call is answered with the reason that the policy gives.
*Limited*: the call after the last that a limit allows is refused.
In brackets is the revision of the protocol that was agreed on, where the client says so.

| client | version | mode | demo | server-everything |
| --- | --- | --- | --- | --- |
{clients}

Claude Code, Gemini CLI and Codex call tools only when a model tells them to; what is tried is what they do without one.

## Servers

Each behind the gateway, with the Python SDK as the client.

| server | version | transport | |
| --- | --- | --- | --- |
{servers}

## Commands

Clients that start a command: `sluice wrap`, which starts `sluice pharo` and judges what it is asked; the image is a double.

| client | version | mode | |
| --- | --- | --- | --- |
{wrapped}

## Cases

Each of these once broke with a real client or server, and is checked against the real binary.

{cases}

## Conformance

The public suite `@modelcontextprotocol/conformance` {suite} is run on a server without the gateway, and again through the gateway with a policy that allows everything.
Then the status of each check is compared, also of those that are not scored.
`compat-server` is ours, made with the Rust SDK, and has everything that the suite looks for in both eras.

| server | revision | passes without the gateway | through the gateway |
| --- | --- | --- | --- |
{conformance}
"""

DATED = re.compile(r"^Made on \S+;", re.MULTILINE)


def row(*cells) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def undated(text: str) -> str:
    return DATED.sub("Made on …;", text)


def kept(path: Path, made: str) -> str | None:
    """How what was made differs from what is kept, but for its date."""
    old, new = undated(path.read_text() if path.exists() else ""), undated(made)
    difference = difflib.unified_diff(old.splitlines(), new.splitlines(), "kept", "made", lineterm="")
    return "\n".join(difference) or None
