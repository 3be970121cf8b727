"""The real gateway, on free ports, with a configuration made for one run."""

import contextlib
import json
from pathlib import Path
from urllib.parse import urlsplit

from .processes import Background, free_port
from .table import Server


class Configuration:
    """A `sluice.toml` in the making, with its policies beside it."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True)
        # Port 0: the gateway takes a free one, and says which.
        self.lines = ['listen = "127.0.0.1:0"', 'admin = "127.0.0.1:0"', 'data = "data"']
        self.grants = 0

    def section(self, kind: str, name: str, **keys) -> None:
        self.lines += ["", f"[{kind}.{name}]"]
        # JSON is TOML, for texts and lists of texts.
        self.lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]

    def policy(self, server: str, name: str, policy: dict) -> None:
        file = f"{name}.json"
        (self.folder / file).write_text(json.dumps(policy))
        self.section("policies", name, servers=[server], file=file)

    def judged(self, server: Server, url: str | None) -> None:
        """A server under the policy that its calls are chosen for."""
        if server.transport == "built in":
            self.section("servers", server.name, builtin=server.name)
            if server.image:
                self.lines.append(f"options = {{ port = {urlsplit(url).port} }}")
        elif server.started:
            instances = {"instances": "session"} if server.own else {}
            self.section("servers", server.name, command=list(server.command), **instances)
            if server.env:
                pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in server.env)
                self.lines.append(f"env = {{ {pairs} }}")
        else:
            bridge = {"bridge": "modern"} if server.bridged else {}
            self.section("servers", server.name, url=url, **bridge)
        self.policy(server.name, f"judged-{server.name}", server.policy())

    def open(self, name: str, url: str) -> None:
        """A server that everybody on this machine may use, for programs without tokens."""
        self.section("servers", name, url=url, anonymous_policy=name)
        self.policy(name, name, {"version": "1", "default": "allow"})

    def grant(self, server: Server) -> str:
        """The token of a grant of its own, so that no other uses up its limits."""
        self.grants += 1
        token = f"sg_compat_{self.grants:04}_{server.name}"
        keys = {"servers": [server.name], "policy": f"judged-{server.name}", "token": token}
        self.section("grants", f"grant-{self.grants}", **keys)
        return token

    def write(self) -> Path:
        path = self.folder / "sluice.toml"
        path.write_text("\n".join(self.lines) + "\n")
        return path


@contextlib.contextmanager
def started(sluice: Path, configuration: Configuration):
    """Runs the gateway; gives the URL that servers' names are put behind."""
    folder = configuration.folder
    path = configuration.write()
    command = [str(sluice), "up", "--config", str(path)]
    with Background("the gateway", command, folder / "gateway.log", cwd=folder) as process:
        run_file = folder / "data" / "run.json"
        described = process.until("it is up", lambda: run_file.exists() and run_file.read_text())
        yield f"http://{json.loads(described)['listen']}/mcp"


@contextlib.contextmanager
def http_server(name: str, command: tuple[str, ...], path: str, folder: Path, env: dict[str, str]):
    """Runs a server that speaks HTTP; gives its URL. It is told its port by the
    variable `PORT`, and in the place of the word `PORT`."""
    port = free_port()
    command = [str(port) if word == "PORT" else word for word in command]
    env = {**env, "PORT": str(port)}
    with Background(name, command, folder / f"{name}.log", env=env, cwd=folder) as process:
        process.until_listening(port)
        yield f"http://127.0.0.1:{port}{path}"
