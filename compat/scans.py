#!/usr/bin/env python3
"""Scans servers of others with `sluice scan`, and compares what it says of them with
what must hold whatever their next version is. README.md says more."""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import peers
from harness.processes import Failed, run
from harness.table import module

# From harmless to most dangerous.
CATEGORIES = ("read", "other", "write", "execute", "destructive", "financial")
SECONDS = 90


@dataclass(frozen=True)
class Known:
    """A server, and what is certain of it."""

    name: str
    command: tuple[str, ...]
    # Tools that only read, and tools that do at least what their category says.
    reads: tuple[str, ...] = ()
    at_least: tuple[tuple[str, str], ...] = ()
    # A signal that a tool must show.
    signals: tuple[tuple[str, str], ...] = ()
    # Tools in whose definitions something is found, and no other.
    found: tuple[str, ...] = ()


def servers(folder: Path) -> list[Known]:
    playwright = peers.MODULES / "@playwright/mcp/cli.js"
    return [
        Known(
            "filesystem",
            module("server-filesystem", str(folder)),
            reads=("read_text_file", "list_directory", "search_files"),
            at_least=(("write_file", "write"), ("edit_file", "write"), ("create_directory", "write")),
            signals=(("write_file", "file-path"),),
        ),
        Known(
            "memory",
            module("server-memory"),
            reads=("read_graph", "search_nodes"),
            at_least=(("delete_entities", "destructive"), ("create_entities", "write")),
        ),
        # It shows its environment to every caller, and says so.
        Known("everything", module("server-everything", "stdio"), reads=("get-sum",), found=("get-env",)),
        Known("sequential-thinking", module("server-sequential-thinking")),
        Known(
            "github",
            module("server-github"),
            reads=("list_commits", "search_code"),
            at_least=(("push_files", "write"), ("create_issue", "write"), ("merge_pull_request", "write")),
        ),
        Known(
            "playwright",
            (str(peers.NODE), str(playwright), "--headless"),
            at_least=(("browser_evaluate", "execute"), ("browser_file_upload", "write")),
            signals=(("browser_navigate", "url"),),
        ),
        Known(
            "git",
            (str(peers.VENV / "bin/mcp-server-git"),),
            reads=("git_status", "git_log", "git_diff"),
            at_least=(("git_reset", "destructive"), ("git_commit", "write")),
        ),
        Known("time", (str(peers.VENV / "bin/mcp-server-time"),), reads=("get_current_time",)),
    ]


def scanned(sluice: Path, known: Known, folder: Path) -> dict:
    """What a scan says, having checked that its policy is one."""
    env = peers.environment(folder / "homes" / known.name)
    command = [str(sluice), "scan", "--json", "--", *known.command]
    outcome = run(command, SECONDS, env=env, cwd=folder)
    if outcome.code not in (0, 1):
        raise Failed(outcome.last_words())
    scan = json.loads(outcome.stdout)
    policy = folder / f"{known.name}.json"
    policy.write_text(json.dumps(scan["policy"]))
    checked = run([str(sluice), "policy", "check", str(policy)], SECONDS, env=env)
    if checked.code != 0:
        raise Failed(f"its policy is none: {checked.last_words()}")
    if (outcome.code == 1) != (scan["findings"] > 0):
        raise Failed(f"the exit code is {outcome.code}, and there are {scan['findings']} findings")
    return scan


def problems(known: Known, scan: dict) -> list[str]:
    """What is not as it must be."""
    tools = {tool["name"]: tool for tool in scan["tools"]}
    named = {*known.reads, *(tool for tool, _ in (*known.at_least, *known.signals))}
    if missing := sorted(named - tools.keys()):
        return [f"no tools {', '.join(missing)}"]
    found = []
    if not tools:
        found.append("no tools at all")
    for name, tool in tools.items():
        if not 0 < tool["tokens"] < 10_000:
            found.append(f"{name} costs {tool['tokens']} tokens")
        if bool(tool["findings"]) != (name in known.found):
            found.append(f"{name} has findings: {tool['findings']}")
    for name in known.reads:
        if tools[name]["category"] != "read":
            found.append(f"{name} is {tools[name]['category']}, and reads")
    for name, least in known.at_least:
        if CATEGORIES.index(tools[name]["category"]) < CATEGORIES.index(least):
            found.append(f"{name} is {tools[name]['category']}, and at least {least}")
    for name, signal in known.signals:
        if signal not in [one["says"] for one in tools[name]["signals"]]:
            found.append(f"{name} shows no signal {signal}")
    return found


def row(known: Known, scan: dict) -> str:
    counts = ", ".join(f"{number} {name}" for name, number in scan["categories"].items() if number)
    return f"{known.name:<20} {len(scan['tools']):>3} tools {scan['tokens']:>6} tokens  {counts}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sluice", type=Path, required=True, help="the gateway's binary")
    sluice = parser.parse_args().sluice.resolve()
    wrong = []
    try:
        peers.install()
        with tempfile.TemporaryDirectory(prefix="sluice-scans-") as folder:
            for known in servers(Path(folder)):
                try:
                    scan = scanned(sluice, known, Path(folder))
                    print(row(known, scan), flush=True)
                    wrong += [f"{known.name}: {problem}" for problem in problems(known, scan)]
                except Failed as error:
                    wrong.append(f"{known.name}: {error}")
    except Failed as error:
        wrong.append(str(error))
    for problem in wrong:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
