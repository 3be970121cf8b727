"""Servers that are commands: questions to their clients, their environment, what they
write when they fail, and their end."""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from harness.case import Case, Context
from harness.gateway import Configuration
from harness.peers import HERE, MODULES, NODE, PYTHON
from harness.processes import Background, Failed, Outcome, run

EVERYTHING = [str(NODE), str(MODULES / "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"]
ALLOW = {"version": "1", "default": "allow"}
TOKEN = "sg_compat_0000_stdio"
QUESTION = {"tool": "trigger-elicitation-request", "arguments": {}}


def require(holds: bool, what: str, outcome: Outcome | None = None) -> None:
    if not holds:
        raise Failed(what if outcome is None else f"{what}: {outcome.last_words()}")


@contextlib.contextmanager
def gateway(context: Context, command: list[str], env: dict[str, str] | None = None, **keys):
    """Runs a gateway with the one server `s`; gives its URL and the process."""
    configuration = Configuration(context.folder / "gateway")
    configuration.section("servers", "s", command=command, **keys)
    configuration.policy("s", "p", ALLOW)
    configuration.section("grants", "g", servers=["s"], policy="p", token=TOKEN)
    path, folder = configuration.write(), configuration.folder
    start = [str(context.sluice), "up", "--config", str(path)]
    env = {**context.environment(), **(env or {})}
    with Background("the gateway", start, folder / "gateway.log", env=env, cwd=folder) as process:
        run_file = folder / "data" / "run.json"
        described = process.until("it is up", lambda: run_file.exists() and run_file.read_text())
        yield f"http://{json.loads(described)['listen']}/mcp/s", process


def sluice(context: Context, *arguments: str, seconds: float = 40) -> Outcome:
    """Runs a command on the gateway of the case."""
    data = str(context.folder / "gateway" / "data")
    command = [str(context.sluice), "--data", data, *arguments]
    return run(command, seconds, env=context.environment(), cwd=context.folder)


def asked(context: Context, **job) -> dict:
    """What came of a job of the Python client."""
    client = [str(PYTHON), str(HERE / "clients" / "python_asked.py"), json.dumps(job)]
    outcome = run(client, 60, env=context.environment(), cwd=context.folder)
    require(outcome.code == 0, "the client failed", outcome)
    return json.loads(outcome.stdout)


def answers(said: dict) -> None:
    require(len(said["asked"]) == 1, f"the client was asked {len(said['asked'])} times")
    require("Ada Lovelace" in said["texts"][0], f"the answer is not in the result: {said}")


def first_call_of_wrap(context: Context) -> None:
    policy = context.folder / "policy.json"
    policy.write_text(json.dumps(ALLOW))
    data = str(context.folder / "data")
    wrap = [str(context.sluice), "--data", data, "wrap", "--policy", str(policy), "--", *EVERYTHING]
    answers(asked(context, command=wrap, calls=[QUESTION], answer={"name": "Ada Lovelace"}))


def first_call_of_session(context: Context) -> None:
    with gateway(context, EVERYTHING, instances="session") as (url, _):
        job = {"url": url, "token": TOKEN, "calls": [QUESTION]}
        answers(asked(context, **job, answer={"name": "Ada Lovelace"}))


# A program that fetches something by TLS before it serves, as `npx` fetches a package.
FETCH = """
const [, , url, server] = process.argv;
await fetch(url).then((answer) => answer.text(), (error) => {
  console.error(`cannot fetch the package: ${error.cause?.code}`);
  process.exit(1);
});
process.argv[2] = "stdio";
await import(server);
"""


@contextlib.contextmanager
def registry(folder: Path):
    """A server with a certificate that only its own file vouches for; gives both."""
    key, certificate = folder / "key.pem", folder / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )

    class Package(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"package")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Package)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/", certificate
    finally:
        server.shutdown()
        server.server_close()


def certificates(context: Context) -> None:
    fetch = context.folder / "fetch.mjs"
    fetch.write_text(FETCH)
    with registry(context.folder) as (url, certificate):
        command = [str(NODE), str(fetch), url, EVERYTHING[1]]
        variables = {"NODE_EXTRA_CA_CERTS": str(certificate)}
        with gateway(context, command, env=variables):
            called = sluice(context, "call", "s", "echo", "--args", '{"message":"hi"}', "--token", TOKEN)
            require(called.code == 0 and "hi" in called.stdout, "the command did not start", called)


def last_words(context: Context) -> None:
    """The same program on a machine that does not trust the registry."""
    fetch = context.folder / "fetch.mjs"
    fetch.write_text(FETCH)
    with registry(context.folder) as (url, _):
        command = [str(NODE), str(fetch), url, EVERYTHING[1]]
        scanned = run([str(context.sluice), "scan", "--", *command], 60, env=context.environment())
        wanted = "cannot fetch the package: DEPTH_ZERO_SELF_SIGNED_CERT"
        require(scanned.code != 0 and wanted in scanned.stderr, "`scan` does not say why", scanned)
        with gateway(context, command) as (_, process):
            listed = sluice(context, "server", "tools", "s")
            require(listed.code == 1 and wanted in listed.stderr, "`server tools` does not say why", listed)
            called = sluice(context, "call", "s", "echo", "--token", TOKEN)
            require(called.code != 0 and wanted in called.stderr, "`call` does not say why", called)
            log = process.log.read_text()
            require("tools could not be learnt" in log and wanted in log, f"the log does not say why:\n{log}")


def children(mark: str) -> list[int]:
    """The processes of the server that was started with this variable."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_own = folder.name.isdigit() and f"CASE={mark}".encode() in (folder / "environ").read_bytes()
            if is_own and b"supervise" not in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def stopped(context: Context) -> None:
    configured = {"timeout": "2s"}
    mark = f"stopped-{os.getpid()}"
    command = ["env", f"CASE={mark}", *EVERYTHING]
    with gateway(context, command, **configured):
        echo = ("call", "s", "echo", "--args", '{"message":"hi"}', "--token", TOKEN)
        first = sluice(context, *echo)
        require(first.code == 0, "the first call failed", first)
        before = children(mark)
        require(bool(before), "the server's process was not found")
        for pid in before:
            os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while (again := sluice(context, *echo)).code != 0:
            require(time.monotonic() < deadline, "it was not replaced", again)
        while any(runs(pid) for pid in before):
            require(time.monotonic() < deadline, "the stopped process is still there")
            time.sleep(0.1)


def cancelled(context: Context) -> None:
    """A client that gives a call up says so, and the next call is answered."""
    slow = {"tool": "trigger-long-running-operation", "arguments": {"duration": 30, "steps": 2}, "patience": 1}
    echo = {"tool": "echo", "arguments": {"message": "still here"}}
    for instances in ("shared", "session"):
        own = Context(context.sluice, context.peers, context.folder / instances)
        own.folder.mkdir()
        with gateway(own, EVERYTHING, instances=instances) as (url, process):
            said = asked(own, url=url, token=TOKEN, calls=[slow, echo])
            require("given up" in said["texts"][0], f"the call was not given up: {said}")
            require("still here" in said["texts"][1], f"the next call was not answered: {said}")
            wanted = "the client cancelled the call"
            process.until("it is recorded", lambda: wanted in sluice(own, "log", "export").stdout)
            log = process.log.read_text()
            require("no answer" not in log, f"a warning of it is in the log:\n{log}")


# A program that leaves a daemon behind (a session of its own, and no parent that knows
# it), then serves, or ends at once.
DAEMON = """
import os, sys, time
ready, told = os.pipe()
first = os.fork()
if first == 0:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    os.write(told, b".")
    time.sleep(1000)
    os._exit(0)
os.waitpid(first, 0)
os.read(ready, 1)
if len(sys.argv) == 2:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def daemons(context: Context) -> None:
    """Of a command that ends by itself, and of one that ends with the gateway."""
    program = context.folder / "daemon.py"
    program.write_text(DAEMON)
    for kind, server in (("ends", []), ("ended", EVERYTHING)):
        own = Context(context.sluice, context.peers, context.folder / kind)
        own.folder.mkdir()
        file = own.folder / "daemon"
        with gateway(own, [str(PYTHON), str(program), str(file), *server]) as (_, process):
            called = sluice(own, "call", "s", "echo", "--args", '{"message":"hi"}', "--token", TOKEN)
            started = [int(line) for line in file.read_text().split()]
            require(bool(started), "no daemon was started")
            if server:
                require(called.code == 0, "the call failed", called)
                require(runs(started[-1]), "the daemon ended before its command")
            else:
                require(called.code != 0, "the command did not end", called)
                process.until("the daemons are gone", lambda: not any(map(runs, started)))
        deadline = time.monotonic() + 20
        while any(runs(int(line)) for line in file.read_text().split()):
            require(time.monotonic() < deadline, f"a daemon is still there: {kind}")
            time.sleep(0.1)


CASES = [
    Case("A question of a command reaches its client during the first call by `sluice wrap`.", first_call_of_wrap),
    Case('A question of a command reaches its client during the first call with `instances = "session"`.', first_call_of_session),
    Case("A command that fetches by TLS first is given `NODE_EXTRA_CA_CERTS`.", certificates),
    Case("A command that does not start is reported with its output, by `scan`, `server tools`, `call` and the log.", last_words),
    Case("A command that is stopped is replaced after several time-outs.", stopped),
    Case("A daemon that a command has started is gone when the command ends, by itself or with the gateway.", daemons),
    Case("A call of a command that its client gives up ends without a warning, and is recorded as cancelled.", cancelled),
]
