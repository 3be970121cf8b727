"""The one table of what is tried: servers and clients."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from .peers import HERE, MODULES, NODE, PYTHON, PYTHON_MCP1, SCRIPTS, VENV

# A span of time that hardly ever ends while the tests run: 31 days.
LONG = 2_678_400
REASON = "Not for agents."


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """A server, and four calls that show how it is judged.

    `allowed` passes, `denied` is refused with a reason, `limited` passes once and
    is refused the second time; `hidden` is not in the list at all.
    """

    name: str
    package: str
    transport: str  # "built in", "streamable HTTP", "HTTP+SSE" or "stdio", and settings after a comma
    allowed: Call
    says: str  # part of what `allowed` answers
    denied: Call
    limited: Call
    hidden: str | None = None
    # What `allowed` sends before its answer, in this order, with a pause before the last.
    notifies: tuple[str, ...] = ()
    # A call that asks the client for something, and part of its answer.
    asks: Call | None = None
    answered: str = ""
    # How often `limited` may be called in all, where `allowed` is the same tool.
    most: int = 1
    # For a server that is started here: its command, where PORT stands for a free port.
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    path: str = "/mcp"
    # Whether the server speaks the legacy era only.
    legacy: bool = False
    # Whether the gateway says of a server of the legacy era that it is modern.
    bridged: bool = False
    # Whether the gateway starts a process of the server for each session.
    own: bool = False
    # For a server that is built in: the program it speaks to, told its port likewise.
    image: tuple[str, ...] = ()

    @property
    def started(self) -> bool:
        """Whether the gateway or `wrap` starts it."""
        return self.transport.startswith("stdio")

    def policy(self) -> dict:
        tools = {self.allowed.tool: {}, self.denied.tool: {"action": "deny", "reason": REASON}}
        limit = {"counter": "calls", "window": LONG, "max": self.most}
        if self.denied.tool == self.allowed.tool:
            forbidden = [
                {"path": f"args.{name}", "op": "eq", "value": value}
                for name, value in self.denied.arguments.items()
                if self.allowed.arguments.get(name) != value
            ]
            tools = {self.allowed.tool: {"deny_if": [{"conditions": forbidden, "on_deny": REASON}]}}
        tools.setdefault(self.limited.tool, {})["limits"] = [limit]
        hide = [self.hidden] if self.hidden else []
        return {"version": "1", "default": "allow", "hide": hide, "tools": tools}


@dataclass(frozen=True)
class Client:
    """A client: a program that does a job and prints what came of it."""

    name: str
    package: str
    command: tuple[str, ...]
    mode: str = "its own"
    # Whether it shows the notifications that it gets, and answers questions of servers.
    hears: bool = True
    answers: bool = True
    # Whether it can start a command.
    starts: bool = True
    # Whether it shows `-` in names of tools as `_`.
    underscores: bool = False

    def shows(self, tool: str) -> str:
        """A tool's name as this client shows it."""
        return tool.replace("-", "_") if self.underscores else tool


def script(name: str) -> tuple[str, ...]:
    if name.endswith(".mjs"):
        return (str(NODE), str(SCRIPTS / name))
    return (str(PYTHON), str(HERE / "clients" / name))


def module(path: str, *arguments: str) -> tuple[str, ...]:
    return (str(NODE), str(MODULES / "@modelcontextprotocol" / path / "dist/index.js"), *arguments)


EVERYTHING = {
    "package": "@modelcontextprotocol/server-everything",
    "allowed": Call("echo", {"message": "through the gate"}),
    "says": "through the gate",
    "denied": Call("get-env"),
    "limited": Call("get-sum", {"a": 2, "b": 3}),
    "hidden": "get-tiny-image",
    "legacy": True,
}

DEMO = Server(
    name="demo",
    package="demo",
    transport="built in",
    allowed=Call("ping_demo"),
    says="",
    denied=Call("delete_note", {"id": "note-1"}),
    limited=Call("list_notes"),
    hidden="pay_invoice",
)

HTTP = Server(
    name="everything",
    transport="streamable HTTP",
    command=module("server-everything", "streamableHttp"),
    **EVERYTHING,
)

# The tools of the servers in `servers/`, which are ours.
OURS = {
    "allowed": Call("work"),
    "says": "the work is done",
    "notifies": ("log", "progress 1", "progress 2"),
    "asks": Call("ask"),
    "answered": "hello compat",
    "denied": Call("remove"),
    "limited": Call("count"),
    "hidden": "secret",
}


def ours(name: str, package: str, python: Path, **more) -> Server:
    """A server of `servers/` over streamable HTTP, with the settings that its SDK comes with."""
    command = (str(python), str(HERE / "servers" / f"{name.replace('-', '_')}.py"))
    return Server(name=name, package=package, transport="streamable HTTP", command=command, **more, **OURS)


PYTHON_V1 = ours("python-v1", "mcp<2", PYTHON_MCP1, legacy=True)
PYTHON_V2 = ours("python-v2", "mcp", PYTHON)
FASTMCP_V4 = ours("fastmcp-v4", "fastmcp", PYTHON)


def on_stdio(server: Server) -> Server:
    """A server of `servers/` on its standard streams. A process that several clients share
    could not ask one of them, so each session has its own."""
    transport, command = 'stdio, `instances = "session"`', (*server.command, "stdio")
    return replace(server, name=f"{server.name}-stdio", transport=transport, command=command, own=True)


def bridged(server: Server) -> Server:
    """A server of the legacy era, for clients that want the modern era and no other."""
    transport = f'{server.transport}, `bridge = "modern"`'
    return replace(server, name=f"{server.name}-bridged", transport=transport, bridged=True)


def met(client: Client) -> list[Server]:
    """The servers that every client is tried with through the gateway."""
    columns = [DEMO, HTTP, PYTHON_V1, PYTHON_V2, FASTMCP_V4]
    return [bridged(server) if client.mode == "modern" and server.legacy else server for server in columns]


# The servers that every client which starts commands is tried with by `sluice wrap`.
WRAPPED = ("pharo", "everything-stdio", "python-v1", "python-v2", "fastmcp-v4")


def servers(folder: Path, rust_peers: Path) -> list[Server]:
    """All servers; files and repositories they work on are made in `folder`."""
    files, repository = str(folder / "files"), str(folder / "repository")
    return [
        DEMO,
        pharo(rust_peers),
        HTTP,
        bridged(HTTP),
        Server(
            name="everything-sse",
            transport="HTTP+SSE",
            command=module("server-everything", "sse"),
            path="/sse",
            **EVERYTHING,
        ),
        Server(
            name="everything-stdio",
            transport="stdio",
            command=module("server-everything", "stdio"),
            **EVERYTHING,
        ),
        PYTHON_V1,
        bridged(PYTHON_V1),
        on_stdio(PYTHON_V1),
        PYTHON_V2,
        FASTMCP_V4,
        Server(
            name="filesystem",
            package="@modelcontextprotocol/server-filesystem",
            transport="stdio",
            command=module("server-filesystem", files),
            allowed=Call("list_directory", {"path": files}),
            says="hello.txt",
            denied=Call("write_file", {"path": f"{files}/new.txt", "content": "x"}),
            limited=Call("read_text_file", {"path": f"{files}/hello.txt"}),
            hidden="move_file",
        ),
        Server(
            name="memory",
            package="@modelcontextprotocol/server-memory",
            transport="stdio",
            command=module("server-memory"),
            env=(("MEMORY_FILE_PATH", f"{files}/memory.jsonl"),),
            allowed=Call("read_graph"),
            says="entities",
            denied=Call("delete_entities", {"entityNames": ["x"]}),
            limited=Call("search_nodes", {"query": "x"}),
            hidden="delete_relations",
        ),
        Server(
            name="sequential-thinking",
            package="@modelcontextprotocol/server-sequential-thinking",
            transport="stdio",
            command=module("server-sequential-thinking"),
            allowed=thought("first"),
            says="thoughtNumber",
            denied=thought("forbidden"),
            limited=thought("again"),
            most=2,
        ),
        Server(
            name="git",
            package="mcp-server-git",
            transport="stdio",
            command=(str(VENV / "bin/mcp-server-git"), "--repository", repository),
            allowed=Call("git_status", {"repo_path": repository}),
            says="status",
            denied=Call("git_commit", {"repo_path": repository, "message": "x"}),
            limited=Call("git_log", {"repo_path": repository}),
            hidden="git_reset",
        ),
        Server(
            name="time",
            package="mcp-server-time",
            transport="stdio",
            command=(str(VENV / "bin/mcp-server-time"), "--local-timezone", "UTC"),
            allowed=Call("get_current_time", {"timezone": "UTC"}),
            says="UTC",
            denied=Call(
                "convert_time",
                {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            ),
            limited=Call("get_current_time", {"timezone": "Asia/Tokyo"}),
            most=2,
        ),
    ]


def pharo(rust_peers: Path) -> Server:
    return Server(
        name="pharo",
        package="pharo",
        transport="built in",
        image=(str(rust_peers / "compat-image"), "PORT"),
        allowed=Call("eval", {"code": "1 + 1"}),
        says='"result":2',
        denied=Call("import_package", {"package_name": "Sis-Tests"}),
        limited=Call("list_packages"),
        hidden="install_project",
    )


def thought(text: str) -> Call:
    rest = {"nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    return Call("sequentialthinking", {"thought": text, **rest})


def clients(rust_client: Path) -> list[Client]:
    """All clients; that of the Rust SDK is built here."""
    python, v2 = script("python_sdk.py"), script("typescript_v2.mjs")
    rust = (str(rust_client),)
    silent = {"hears": False, "answers": False}
    return [
        Client("Python SDK", "mcp", python, "auto"),
        Client("Python SDK", "mcp", python, "legacy"),
        Client("Python SDK", "mcp", python, "modern"),
        Client("TypeScript SDK 1", "@modelcontextprotocol/sdk", script("typescript_v1.mjs"), "legacy"),
        Client("TypeScript SDK 2", "@modelcontextprotocol/client", v2, "auto"),
        Client("TypeScript SDK 2", "@modelcontextprotocol/client", v2, "legacy"),
        Client("TypeScript SDK 2", "@modelcontextprotocol/client", v2, "modern"),
        Client("fastmcp", "fastmcp", script("fastmcp_client.py")),
        Client("Rust SDK", "rmcp", rust, "auto"),
        Client("Rust SDK", "rmcp", rust, "legacy"),
        Client("Rust SDK", "rmcp", rust, "modern"),
        Client("Inspector", "@modelcontextprotocol/inspector", script("inspector.py"), **silent),
        Client("mcp-remote", "mcp-remote", script("mcp_remote.py"), starts=False),
        Client("Claude Code", "@anthropic-ai/claude-code", script("claude_code.py"), **silent),
        Client("Gemini CLI", "@google/gemini-cli", script("gemini.py"), **silent),
        Client("Codex", "@openai/codex", script("codex.py"), underscores=True, **silent),
    ]
