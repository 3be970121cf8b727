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
from harness.processes import Failed, indented
from harness.report import Report
from harness.trial import tried

DOCUMENT = peers.ROOT / "docs/reference/compatibility.md"


def common(client: table.Client) -> tuple[table.Server, table.Server]:
    """The servers that every client is tried with."""
    return table.DEMO, table.BRIDGED if client.mode == "modern" else table.HTTP


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
            urls = {server.name: self.begin(stack, server) for server in self.servers}
            conforming = {
                "compat-server": self.begin_http(stack, "compat-server", self.compat_server, "/mcp"),
                "server-everything": urls["everything"],
            }
            configuration = Configuration(self.folder / "gateway")
            for name, url in conforming.items():
                configuration.open(f"open-{name}", url)
            for server in self.servers:
                configuration.judged(server, urls[server.name])
            pairs = [(client, server) for client in self.clients for server in common(client)]
            pairs += [(self.clients[0], server) for server in self.servers]
            tokens = [configuration.grant(server) for _, server in pairs]
            gateway = stack.enter_context(started(self.sluice, configuration))
            checked = self.conformance_rows(conforming, gateway)
            with ThreadPoolExecutor(2) as pool:
                cells = list(pool.map(lambda pair, token: self.cell(*pair, gateway, token), pairs, tokens))
            wrapped = [self.wrapped(client, urls["pharo"]) for client in table.starters()]
        with ThreadPoolExecutor(2) as pool:
            held = list(pool.map(self.case, cases.ALL, range(len(cases.ALL))))
        words = iter(cells)
        client_rows = [self.client_row(client, [next(words) for _ in common(client)]) for client in self.clients]
        server_rows = [self.server_row(server, next(words)) for server in self.servers]
        return matrix.HEAD.format(
            date=datetime.date.today().isoformat(),
            suite=self.versions["@modelcontextprotocol/conformance"],
            clients="\n".join(client_rows),
            servers="\n".join(server_rows),
            wrapped="\n".join(wrapped),
            cases="\n".join(held),
            conformance="\n".join(checked),
        )

    def begin(self, stack: contextlib.ExitStack, server: table.Server) -> str | None:
        """Starts a server that the gateway does not start itself."""
        if server.image:
            return self.begin_http(stack, server.name, server.image, "")
        if server.transport in ("built in", "stdio"):
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

    def cell(self, client: table.Client, server: table.Server, gateway: str, token: str) -> str:
        """One client with one server, in the words of the matrix."""
        what = f"{client.name} ({client.mode}) with {server.name}"
        try:
            reached = {"url": f"{gateway}/{server.name}", "token": token}
            result = tried(client, server, reached, self.folder / "homes" / token)
        except Failed as error:
            return self.report.fail(what, error)
        self.report.say(f"passed: {what}")
        return str(result)

    def wrapped(self, client: table.Client, image: str) -> str:
        """A client that starts `sluice wrap`, which starts `sluice pharo`."""
        what = f"{client.name} ({client.mode}) with wrap"
        folder = self.folder / f"wrap-{client.mode}"
        folder.mkdir()
        server = next(server for server in self.servers if server.name == "pharo")
        (folder / "policy.json").write_text(json.dumps(server.policy()))
        command = [str(self.sluice), "--data", str(folder / "data"), "wrap", "--policy", str(folder / "policy.json")]
        command += ["--", str(self.sluice), "pharo", "--port", str(urlsplit(image).port)]
        try:
            result = tried(client, server, {"command": command}, folder / "home")
        except Failed as error:
            return self.report.fail(what, error)
        self.report.say(f"passed: {what}")
        return matrix.row(client.name, self.versions[client.package], client.mode, result)

    def case(self, case: Case, number: int) -> str:
        """One behaviour, as a line of the matrix."""
        try:
            case.run(self.sluice, self.rust_peers, self.folder / f"case-{number}")
        except Failed as error:
            return f"- {self.report.fail(case.title, error)}: {case.title}"
        self.report.say(f"passed: {case.title}")
        return f"- {case.title}"

    def client_row(self, client: table.Client, cells: list[str]) -> str:
        return matrix.row(client.name, self.versions[client.package], client.mode, *cells)

    def server_row(self, server: table.Server, cell: str) -> str:
        version = self.versions.get(server.package, "")
        return matrix.row(f"`{server.package}`", version, server.transport, cell)


def make_files(folder: Path) -> None:
    """What servers of files and repositories work on."""
    for name in ("files", "repository"):
        (folder / name).mkdir()
        (folder / name / "hello.txt").write_text("hello\n")
    git = ["git", "-C", str(folder / "repository"), "-c", "user.name=compat", "-c", "user.email=compat@example.com"]
    # Settings of whoever runs this would get in the way.
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
            "hint: `make compat COMPAT=--write` writes it anew"
        )
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if not problems:
        run.report.say("everything works as the matrix says")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
