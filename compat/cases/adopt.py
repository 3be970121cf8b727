"""`sluice stack adopt` and `restore`, with the files and programs of real clients."""

import contextlib
import json
import threading
import time
from pathlib import Path

from harness.case import Case, Context
from harness.gateway import Configuration, started
from harness.peers import HERE, MODULES, NODE, PYTHON, ROOT
from harness.processes import Failed, free_port, run

SECONDS = 90


def stack(context: Context, *arguments: str) -> str:
    """Runs `sluice stack`, which has to do what it was asked for; what it printed."""
    home = context.folder / "home"
    outcome = run([str(context.sluice), "stack", *arguments], SECONDS, env=context.environment(), cwd=home)
    if outcome.code != 0:
        raise Failed(f"`sluice stack {' '.join(arguments)}`: {outcome.last_words()}")
    return outcome.stdout


def roots_hold_after_adopt(context: Context) -> None:
    context.environment()
    wide = context.folder / "wide"
    project = wide / "project"
    project.mkdir(parents=True)
    (wide / "private.txt").write_text("not for this project")
    (project / "hello.txt").write_text("hello from the project")
    server = [str(NODE), str(MODULES / "@modelcontextprotocol/server-filesystem/dist/index.js"), str(wide)]
    file = context.folder / "home/.cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"files": {"command": server[0], "args": server[1:]}}}))
    check_roots(context, "before it is adopted", server, project)
    shown = stack(context, "adopt", "files", "--yes")
    entry = json.loads(file.read_text())["mcpServers"]["files"]
    if "wrap" not in entry["args"]:
        raise Failed(f"expected an entry with `sluice wrap`, found {entry}")
    check_roots(context, "after it is adopted", [entry["command"], *entry["args"]], project)
    if "roots: not restricted" not in shown:
        raise Failed(f"expected `adopt` to say that roots are not restricted:\n{shown}")


def check_roots(context: Context, when: str, server: list[str], project: Path) -> None:
    """The folder is the root that the client gives, not the one on the command line."""
    paths = [project / "hello.txt", project.parent / "private.txt"]
    calls = [{"tool": "read_text_file", "arguments": {"path": str(path)}} for path in paths]
    job = {"command": server, "roots": [str(project)], "calls": calls}
    command = [str(PYTHON), str(HERE / "clients/python_roots.py"), json.dumps(job)]
    outcome = run(command, SECONDS, env=context.environment(), cwd=context.folder)
    if outcome.code != 0:
        raise Failed(f"{when}: {outcome.last_words()}")
    inside, outside = json.loads(outcome.stdout.splitlines()[-1])["answers"]
    if inside["error"] or "hello from the project" not in inside["text"]:
        raise Failed(f"{when}: expected the file in the root, found {inside}")
    if not outside["error"] or "outside allowed directories" not in outside["text"]:
        raise Failed(f"{when}: expected the server to refuse the file outside the root, found {outside}")


def codex(context: Context, *arguments: str) -> str:
    """Runs the Codex CLI in the home of the case; what it printed."""
    command = [str(NODE), str((MODULES / ".bin/codex").resolve()), *arguments]
    outcome = run(command, SECONDS, env=context.environment(), cwd=context.folder / "home")
    if outcome.code != 0:
        raise Failed(f"`codex {' '.join(arguments)}`: {outcome.last_words()}")
    return outcome.stdout


def codex_entries_are_restored(context: Context) -> None:
    server = [str(NODE), str(MODULES / "@modelcontextprotocol/server-everything/dist/index.js")]
    context.environment()
    codex(context, "mcp", "add", "things", "--env", "KEY=value", "--", *server)
    # Nobody listens there: what is tried is the file alone.
    address = f"http://127.0.0.1:{free_port()}/mcp"
    codex(context, "mcp", "add", "remote", "--url", address, "--bearer-token-env-var", "TOKEN")
    before = {name: codex(context, "mcp", "get", name, "--json") for name in ("things", "remote")}
    stack(context, "adopt", "--all", "--unseen", "--yes")
    file = context.folder / "home/.codex/config.toml"
    if file.read_text().count('"wrap"') != 2:
        raise Failed(f"expected both entries behind `sluice wrap`:\n{file.read_text()}")
    codex(context, "mcp", "add", "other", "--", *server)
    told = stack(context, "restore")
    for name, entry in before.items():
        found = codex(context, "mcp", "get", name, "--json")
        if found != entry:
            raise Failed(f"expected `{name}` as it was:\n{entry}\nfound:\n{found}\n`restore` said:\n{told}")
    codex(context, "mcp", "get", "other")


def gemini(context: Context, *lines: str) -> str:
    """Runs shell commands with the Gemini CLI and `sluice` on the path; what they printed."""
    env = context.environment()
    path = f"{MODULES / '.bin'}:{context.sluice.parent}:{env['PATH']}"
    # Servers of a folder that is not trusted are not asked.
    env |= {"PATH": path, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    heard = ""
    for line in lines:
        outcome = run(["sh", "-c", line], SECONDS, env=env, cwd=context.folder / "home")
        if outcome.code != 0:
            raise Failed(f"`{line}`: {outcome.last_words()}")
        heard = outcome.stdout + outcome.stderr
    return heard


def gemini_adds_what_is_printed(context: Context) -> None:
    # As the guide has it, with another policy and server.
    policy = context.folder / "policy.json"
    policy.write_text(json.dumps({"version": "1", "default": "allow"}))
    server = f"{NODE} {MODULES / '@modelcontextprotocol/server-everything/dist/index.js'} stdio"
    guide = (ROOT / "docs/guides/wrap.md").read_text().splitlines()
    added = next(line for line in guide if line.startswith("gemini mcp add "))
    command = "npx -y @modelcontextprotocol/server-filesystem /srv/notes"
    for word, other in (("/home/me/notes.json", str(policy)), (command, server)):
        if word not in added:
            raise Failed(f"expected `{word}` in the guide's line: {added}")
        added = added.replace(word, other)
    # As `sluice grant create` prints it.
    configuration = Configuration(context.folder / "gateway")
    configuration.section("servers", "demo", builtin="demo")
    configuration.policy("demo", "open", {"version": "1", "default": "allow"})
    create = ["--data", str(configuration.folder / "data"), "grant", "create", "demo", "me", "--policy", "open"]
    with started(context.sluice, configuration):
        created = run([str(context.sluice), *create], SECONDS, env=context.environment())
        printed = [line.strip() for line in created.stderr.splitlines() if "gemini mcp add " in line]
        if len(printed) != 1:
            raise Failed(f"expected one line with `gemini mcp add`: {created.last_words()}")
        with_token = f"SLUICE_TOKEN={created.stdout.strip()}; {printed[0]}"
        listed = gemini(context, added, with_token, "gemini mcp list")
    for name in ("notes", "demo"):
        if not any(name in line and "Connected" in line for line in listed.splitlines()):
            raise Failed(f"expected `{name}` to be connected:\n{listed}")


def edit_is_taken_in_a_busy_folder(context: Context) -> None:
    configuration = Configuration(context.folder / "gateway")
    configuration.section("servers", "demo", builtin="demo")
    configuration.policy("demo", "edited", {"version": "1", "default": "deny"})
    token = "sg_compat_edited_policy"
    configuration.section("grants", "grant", servers=["demo"], policy="edited", token=token)
    folder = configuration.folder
    call = [str(context.sluice), "--data", str(folder / "data"), "call", "demo", "list_notes", "--token", token]
    with started(context.sluice, configuration):
        before = run(call, SECONDS, env=context.environment(), cwd=folder)
        if before.code != 1:
            raise Failed(f"expected a denied call: {before.last_words()}")
        with rewritten(folder / "beside.log", 0.02):
            (folder / "edited.json").write_text(json.dumps({"version": "1", "default": "allow"}))
            edited = time.monotonic()
            # The call may take its time on a busy machine; what is judged is when it began.
            while time.monotonic() < edited + 2:
                if run(call, SECONDS, env=context.environment(), cwd=folder).code == 0:
                    return
            raise Failed("the edit is not in force after two seconds")


@contextlib.contextmanager
def rewritten(path: Path, every: float):
    """Writes a file again and again."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(every):
            number += 1
            path.write_text(str(number))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


CASES = [
    Case("A client's roots bound `server-filesystem` after `stack adopt` as before", roots_hold_after_adopt),
    Case("`stack restore` restores Codex's entries after another `codex mcp add`", codex_entries_are_restored),
    Case("`gemini mcp add` works as printed and as in the guide", gemini_adds_what_is_printed),
    Case(
        "A policy edit is in force within two seconds beside a file that is written all the time",
        edit_is_taken_in_a_busy_folder,
    ),
]
