"""Clients and servers from the registries: installed once, in pinned versions."""

import hashlib
import json
import os
import platform
import re
import shutil
import sys
from pathlib import Path

from .processes import Failed, run

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
TOOLS = ROOT / ".tools" / "compat"
NPM = TOOLS / "npm"
VENV = TOOLS / "python"
# The Python SDK, version 1: it cannot be installed beside version 2.
VENV_MCP1 = TOOLS / "python-mcp1"
MODULES = NPM / "node_modules"
SCRIPTS = NPM / "clients"
PYTHON = VENV / "bin" / "python"
PYTHON_MCP1 = VENV_MCP1 / "bin" / "python"
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NODE = MODULES / f"node-linux-{MACHINE}" / "bin" / "node"

# Nothing here has business with anybody but us. What tries all the same is sent
# to a port where nobody listens.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "NO_UPDATE_NOTIFIER": "1",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}

# No files of ours between those of the repository, and no colours in what is read.
PLAIN = {"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def install() -> None:
    """Installs what is not there yet in the versions of the lock files."""
    once("npm", ["package.json", "package-lock.json", ".npmrc"], npm)
    once("python", ["requirements.txt"], lambda: python(VENV, "requirements.txt"))
    once("python-mcp1", ["requirements-mcp1.txt"], lambda: python(VENV_MCP1, "requirements-mcp1.txt"))
    # Node looks for packages beside the file that asks for them.
    SCRIPTS.mkdir(exist_ok=True)
    for file in (HERE / "clients").glob("*.mjs"):
        shutil.copy(file, SCRIPTS / file.name)


def once(name: str, files: list[str], steps) -> None:
    digest = hashlib.sha256(b"".join((HERE / file).read_bytes() for file in files)).hexdigest()
    mark = TOOLS / f"{name}.installed"
    if mark.exists() and mark.read_text() == digest:
        return
    print(f"installing the peers of {', '.join(files)} into .tools/compat (once)", flush=True)
    TOOLS.mkdir(parents=True, exist_ok=True)
    steps()
    mark.write_text(digest)


def npm() -> None:
    NPM.mkdir(exist_ok=True)
    for file in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(HERE / file, NPM / file)
    # Not `npm ci`: it refuses a lock file that leaves out optional packages of
    # other machines, and not every registry has those.
    done(["npm", "install", "--no-progress", "--loglevel=error"], 420, cwd=NPM)
    if not NODE.exists():
        raise Failed(f"npm has no Node for this machine ({platform.machine()})")


def python(folder: Path, requirements: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    done([sys.executable, "-m", "venv", str(folder)], 120)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done([*pip, "--requirement", str(HERE / requirements)], 420)


def done(command: list[str], seconds: float, cwd=None) -> None:
    outcome = run(command, seconds, cwd=cwd)
    if outcome.code != 0:
        raise Failed(f"`{' '.join(command)}` failed: {outcome.last_words()}")


def environment(home: Path) -> dict[str, str]:
    """What a peer gets to see of the machine: a folder of its own, and Node 22."""
    home.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(NODE.parent), str(VENV / "bin"), os.environ.get("PATH", "")])
    kept = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
    return {**kept, **QUIET, "HOME": str(home), "PATH": path, "COMPAT_MODULES": str(MODULES), **PLAIN}


def versions() -> dict[str, str]:
    """The pinned versions, by the package's name; `mcp<2` is the Python SDK, version 1."""
    package = json.loads((HERE / "package.json").read_text())
    mcp1 = pinned_by_pip("requirements-mcp1.txt")["mcp"]
    found = {**package["dependencies"], **pinned_by_pip("requirements.txt"), "mcp<2": mcp1}
    manifest = (HERE / "Cargo.toml").read_text()
    if pinned := re.search(r'^rmcp = \{ version = "=([\d.]+)"', manifest, re.MULTILINE):
        found["rmcp"] = pinned[1]
    return found


def pinned_by_pip(requirements: str) -> dict[str, str]:
    lines = (HERE / requirements).read_text().splitlines()
    return dict(pinned.groups() for line in lines if (pinned := re.match(r"([\w.-]+)==([\w.]+)", line)))
