"""`docs/reference/compatibility.md`: what was tried and what came of it."""

import difflib
import re
from pathlib import Path

from .pairs import Pair, wrapped
from .table import WRAPPED, Client, Server, met

HEAD = """# Compatibility

Which clients and servers of others work with Sluicegate, as tried by `make compat`, which is part of `make test`.
Made on {date}; the versions are pinned in [`compat/`](../../compat/README.md).

## Clients

Each connects to the gateway with a token.
The servers of `mcp` and `fastmcp` are [ours](../../compat/README.md), with the settings that those packages come with.
In mode *modern*, servers that speak only the legacy era have `bridge = "modern"`.

*Judged*: the client lists the tools that its policy shows and none that it hides; an allowed call passes; a denied call is answered with the reason that the policy gives; the call after the last that a limit allows is refused.
*Notified*: a log message and progress that the server sends before its answer arrive before it, in their order and without delay.
*Asked*: a tool that asks the client a question (elicitation) gets its answer.
In brackets is the revision of the protocol that was agreed on, where the client says so.

{clients}

Claude Code, Gemini CLI and Codex call tools when a model tells them to.
The model is a double, on this machine, that asks for the calls and is shown their answers; the clients are the real ones.

## Servers

Each with the Python SDK as the client, through the gateway and by `sluice wrap`.
`demo` is part of the gateway; legacy servers with `--bridge modern` are in the next table.

{servers}

## Commands

Clients that start a command: `sluice wrap`, which starts the server or calls its URL, and judges each call.
`pharo` is `sluice pharo`, with a double of its image.
In mode *modern*, servers that speak only the legacy era have `--bridge modern`.

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


# What the columns of the tables of clients are called.
COLUMNS = {
    "demo": "demo",
    "pharo": "pharo",
    "everything": "server-everything",
    "everything-stdio": "server-everything",
    "python-v1": "`mcp` 1",
    "python-v2": "`mcp` 2",
    "fastmcp-v4": "`fastmcp` 4",
}
NOT_TRIED = "–"


def made(*, date, versions, clients, servers, cells, cases, conformance) -> str:
    """The whole document; `cells` is what came of each pair, by the pair's name."""
    return HEAD.format(
        date=date,
        suite=versions["@modelcontextprotocol/conformance"],
        clients=client_table(clients, versions, cells),
        servers=server_table(clients[0], servers, versions, cells),
        wrapped=wrap_table(clients, servers, versions, cells),
        cases="\n".join(cases),
        conformance="\n".join(conformance),
    )


def client_table(clients: list[Client], versions: dict, cells: dict) -> str:
    rows = head("client", "version", "mode", *(COLUMNS[server.name] for server in met(clients[0])))
    for client in clients:
        found = [cells[Pair(client, server).name] for server in met(client)]
        rows.append(row(client.name, versions[client.package], client.mode, *found))
    return "\n".join(rows)


def server_table(first: Client, servers: list[Server], versions: dict, cells: dict) -> str:
    rows = head("server", "version", "transport", "through the gateway", "by `wrap`")
    for server in servers:
        found = [cells.get(Pair(first, server, wrapped=way).name, NOT_TRIED) for way in (False, True)]
        rows.append(row(f"`{server.package}`", versions.get(server.package, ""), server.transport, *found))
    return "\n".join(rows)


def wrap_table(clients: list[Client], servers: list[Server], versions: dict, cells: dict) -> str:
    transports = {server.name: server.transport for server in servers}
    rows = head("client", "version", "mode", *(f"{COLUMNS[name]}, {by(transports[name])}" for name in WRAPPED))
    for client in clients:
        if not client.starts:
            continue
        found = {server.name: cells[Pair(client, server, wrapped=True).name] for server in wrapped(client, servers)}
        words = [found.get(name, NOT_TRIED) for name in WRAPPED]
        rows.append(row(client.name, versions[client.package], client.mode, *words))
    return "\n".join(rows)


def by(transport: str) -> str:
    """How `wrap` reaches a server."""
    return "URL" if transport.startswith("streamable") else "command"


def head(*cells: str) -> list[str]:
    return [row(*cells), row(*("---" for _ in cells))]


def row(*cells) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def undated(text: str) -> str:
    return DATED.sub("Made on …;", text)


def kept(path: Path, made: str) -> str | None:
    """How what was made differs from what is kept, but for its date."""
    old, new = undated(path.read_text() if path.exists() else ""), undated(made)
    difference = difflib.unified_diff(old.splitlines(), new.splitlines(), "kept", "made", lineterm="")
    return "\n".join(difference) or None
