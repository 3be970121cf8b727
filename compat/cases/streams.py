"""Event streams of real servers, and clients of the HTTP+SSE transport."""

import http.client
import json
from urllib.parse import urlsplit

from harness.case import Case, Context
from harness.gateway import Configuration, http_server, started
from harness.peers import HERE, PYTHON
from harness.processes import Failed, run
from harness.table import module

TOKEN = "sg_compat_streams_0001"
EVERYTHING = module("server-everything", "streamableHttp")
OPEN = {"version": "1", "default": "allow"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "sluice-compat", "version": "1"},
    },
}
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"message": "x"}},
}


class Connection:
    """A client that sees events as they are written."""

    def __init__(self, url: str):
        self.url = urlsplit(url)
        self.headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }

    def request(self, method: str, message: dict | None = None, **headers) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=10)
        body = json.dumps(message) if message else None
        connection.request(method, self.url.path, body, {**self.headers, **headers})
        return connection.getresponse()

    def introduce(self) -> None:
        answer = self.request("POST", HELLO)
        self.headers["Mcp-Session-Id"] = answer.getheader("Mcp-Session-Id")
        self.headers["MCP-Protocol-Version"] = "2025-11-25"
        answer.read()
        self.request("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}).read()

    def call(self) -> list[str]:
        """The ids of the events that answer a call."""
        text = self.request("POST", CALL).read().decode()
        return [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")]


def read_until(answer: http.client.HTTPResponse, text: str) -> str:
    """What a stream says up to a text."""
    if answer.status != 200:
        raise Failed(f"the stream was answered with status {answer.status}: {answer.read()[:500]}")
    heard = ""
    while text not in heard:
        piece = answer.read1(65536)
        if not piece:
            raise Failed(f"the stream was cut after: {heard}")
        heard += piece.decode()
    return heard


def check_replay(context: Context) -> None:
    configuration = Configuration(context.folder / "gateway")
    with http_server("everything", EVERYTHING, "/mcp", context.folder, context.environment()) as url:
        configuration.section("servers", "everything", url=url)
        configuration.policy("everything", "open", OPEN)
        configuration.section("grants", "agent", servers=["everything"], policy="open", token=TOKEN)
        with started(context.sluice, configuration) as gateway:
            client = Connection(f"{gateway}/everything")
            client.introduce()
            first = client.call()
            client.call()
            # The server repeats everything since, and has kept the event that began
            # the second answer as `{}`.
            stream = client.request("GET", **{"Last-Event-ID": first[-1]})
            heard = read_until(stream, "Echo: x")
        log = (configuration.folder / "gateway.log").read_text()
    if "data: {}" in heard:
        raise Failed(f"an event that is no message was passed on:\n{heard}")
    if "skipped an event" not in log:
        raise Failed(f"the log does not say that an event was skipped:\n{log[-1500:]}")


def check_old_client(context: Context) -> None:
    configuration = Configuration(context.folder / "gateway")
    with http_server("everything", EVERYTHING, "/mcp", context.folder, context.environment()) as url:
        configuration.section("servers", "everything", url=url)
        configuration.section("servers", "demo", builtin="demo")
        configuration.section("policies", "open", servers=["everything", "demo"], file="open.json")
        (configuration.folder / "open.json").write_text(json.dumps(OPEN))
        keys = {"servers": ["everything", "demo"], "policy": "open", "token": TOKEN}
        configuration.section("grants", "agent", **keys)
        with started(context.sluice, configuration) as gateway:
            job = {"url": f"{gateway}/sse", "token": TOKEN, "calls": ["everything__echo", "demo__ping_demo"]}
            command = [str(PYTHON), str(HERE / "cases/old_client.py"), json.dumps(job)]
            outcome = run(command, 60, env=context.environment(), cwd=context.folder)
    if outcome.code != 0:
        raise Failed(outcome.last_words())
    said = json.loads(outcome.stdout.strip().splitlines()[-1])
    if said["errors"] or not {"everything__echo", "demo__ping_demo"} <= set(said["tools"]):
        raise Failed(f"it said {said}")


CASES = [
    Case(
        "An event that is no JSON-RPC message, which server-everything repeats to a client that resumes a stream, is skipped and logged; the stream goes on.",
        check_replay,
    ),
    Case("A client of the HTTP+SSE transport (Python SDK) reaches all servers of its grant at `/mcp/sse`.", check_old_client),
]
