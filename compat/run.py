#!/usr/bin/env python3
"""Tries the gateway with pinned clients and servers of others, and compares what
came of it with `docs/reference/compatibility.md`. README.md says more."""

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import cases
from harness import conformance, matrix, peers, table
from harness.case import Case
from harness.gateway import Configuration, http_server, started
from harness.pairs import Pair, all_pairs
from harness.processes import Failed, indented
from harness.report import Report
from harness.trial import tried

DOCUMENT = peers.ROOT / "docs/reference/compatibility.md"
# How many pairs are tried at a time. Most of a trial is waiting for programs to start.
AT_ONCE = 3


class Run:
    """One run: a folder of its own, the table, and the report."""

    def __init__(self, sluice: Path, rust_peers: Path, folder: Path):
        self.sluice, self.rust_peers, self.folder, self.report = sluice, rust_peers, folder, Report()
        self.compat_server = (str(rust_peers / "compat-server"), "PORT")
        self.servers = table.servers(folder, rust_peers)
        self.clients = table.clients(rust_peers / "compat-client")
        self.versions = peers.versions()

    def everything(self) -> str:
        """Tries all of it; gives the matrix."""
        make_files(self.folder)
        with contextlib.ExitStack() as stack:
            urls = self.begin_all(stack)
            conforming = {
                "compat-server": self.begin_http(stack, "compat-server", self.compat_server, "/mcp"),
                "server-everything": urls["everything"],
            }
            configuration = Configuration(self.folder / "gateway")
            for name, url in conforming.items():
                configuration.open(f"open-{name}", url)
            for server in self.servers:
                configuration.judged(server, urls[server.name])
            pairs = all_pairs(self.clients, self.servers)
            tokens = {pair.name: configuration.grant(pair.server) for pair in pairs if not pair.wrapped}
            gateway = stack.enter_context(started(self.sluice, configuration))
            ways = [
                self.wrapping(pair, urls[pair.server.name])
                if pair.wrapped
                else {"url": f"{gateway}/{pair.server.name}", "token": tokens[pair.name]}
                for pair in pairs
            ]
            checked = self.conformance_rows(conforming, gateway)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                cells = list(pool.map(self.cell, pairs, ways))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            held = list(pool.map(self.case, cases.ALL, range(len(cases.ALL))))
        found = {pair.name: cell for pair, cell in zip(pairs, cells, strict=True)}
        return matrix.made(
            date=datetime.date.today().isoformat(),
            versions=self.versions,
            clients=self.clients,
            servers=self.servers,
            cells=found,
            cases=held,
            conformance=checked,
        )

    def begin_all(self, stack: contextlib.ExitStack) -> dict[str, str | None]:
        """Starts the servers; two that differ only in how the gateway takes them are one program."""
        programs: dict[tuple, str | None] = {}
        for server in self.servers:
            key = (server.command or server.name, server.path)
            if key not in programs:
                programs[key] = self.begin(stack, server)
        return {server.name: programs[server.command or server.name, server.path] for server in self.servers}

    def begin(self, stack: contextlib.ExitStack, server: table.Server) -> str | None:
        """Starts a server that the gateway does not start itself."""
        if server.image:
            return self.begin_http(stack, server.name, server.image, "")
        if server.transport == "built in" or server.started:
            return None
        return self.begin_http(stack, server.name, server.command, server.path)

    def begin_http(self, stack, name: str, command: tuple[str, ...], path: str) -> str:
        env = peers.environment(self.folder / "homes" / name)
        return stack.enter_context(http_server(name, command, path, self.folder, env))

    def conformance_rows(self, urls: dict[str, str], gateway: str) -> list[str]:
        rows = []
        for name, url in urls.items():
            for revision in conformance.REVISIONS:
                what = f"conformance of {name} for {revision}"
                folder = self.folder / f"{name}-{revision}"
                try:
                    found = conformance.judged(name, revision, url, f"{gateway}/open-{name}", folder)
                    self.report.say(f"passed: {what}, without the gateway and with it")
                except Failed as error:
                    found = ("", self.report.fail(what, error))
                rows.append(matrix.row(f"`{name}`", revision, *found))
        return rows

    def cell(self, pair: Pair, way: dict) -> str:
        """One client with one server, in the words of the matrix."""
        try:
            result = tried(pair.client, pair.server, way, self.folder / "homes" / pair.name)
        except Failed as error:
            return self.report.fail(pair.title, error)
        self.report.say(f"passed: {pair.title}")
        return str(result)

    def wrapping(self, pair: Pair, url: str | None) -> dict:
        """How a client reaches a server by `sluice wrap`: the command that it starts."""
        folder = self.folder / "wraps" / pair.name
        folder.mkdir(parents=True)
        server = pair.server
        (folder / "policy.json").write_text(json.dumps(server.policy()))
        command = [str(self.sluice), "--data", str(folder / "data"), "wrap", "--policy", str(folder / "policy.json")]
        if pair.client.mode == "modern" and server.legacy:
            command += ["--bridge", "modern"]
        if server.image:
            command += ["--", str(self.sluice), "pharo", "--port", str(urlsplit(url).port)]
        elif server.started:
            given = ["env", *(f"{name}={value}" for name, value in server.env)] if server.env else []
            command += ["--", *given, *server.command]
        else:
            command += ["--url", url]
        return {"command": command}

    def case(self, case: Case, number: int) -> str:
        """One behaviour, as a line of the matrix."""
        try:
            case.run(self.sluice, self.rust_peers, self.folder / f"case-{number}")
        except Failed as error:
            return f"- {self.report.fail(case.title, error)}: {case.title}"
        self.report.say(f"passed: {case.title}")
        return f"- {case.title}"


def make_files(folder: Path) -> None:
    """What servers of files and repositories work on."""
    for name in ("files", "repository"):
        (folder / name).mkdir()
        (folder / name / "hello.txt").write_text("hello\n")
    git = ["git", "-C", str(folder / "repository"), "-c", "user.name=compat", "-c", "user.email=compat@example.com"]
    # Settings of the current user would interfere.
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "hello"]):
        subprocess.run([*git, *words], check=True, timeout=20, env=env)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sluice", type=Path, required=True, help="the gateway's binary")
    parser.add_argument("--peers", type=Path, required=True, help="the folder of compat-server and compat-client")
    parser.add_argument("--write", action="store_true", help="write the matrix instead of comparing it")
    arguments = parser.parse_args()
    # What was started is ended also when this is asked to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        peers.install()
        with tempfile.TemporaryDirectory(prefix="sluice-compat-") as folder:
            run = Run(arguments.sluice.resolve(), arguments.peers.resolve(), Path(folder))
            made = run.everything()
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    problems = run.report.problems
    if arguments.write and not problems:
        DOCUMENT.write_text(made)
    elif not problems and (difference := matrix.kept(DOCUMENT, made)):
        problems.append(
            f"{DOCUMENT.relative_to(peers.ROOT)} says otherwise:\n{indented(difference)}\n"
            "hint: `make compat COMPAT=--write` rewrites it"
        )
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if not problems:
        run.report.say("everything works as the matrix says")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
