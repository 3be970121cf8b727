"""Programs that are started, watched and ended, each with a time limit."""

import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


class Failed(Exception):
    """Something did not go as it must; the text says what, and the last that was heard."""


@dataclass
class Outcome:
    """How a program came out."""

    code: int | None  # None: it was ended because its time was up
    stdout: str
    stderr: str

    def last_words(self) -> str:
        how = "ran out of time" if self.code is None else f"ended with {self.code}"
        heard = (self.stdout + "\n" + self.stderr).strip()[-1500:]
        return f"it {how}; last output:\n{indented(heard) or '    (none)'}"


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def run(command: list[str], seconds: float, env=None, cwd=None) -> Outcome:
    """Runs a program to its end, or ends it and all it has started."""
    with subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
            return Outcome(process.returncode, stdout, stderr)
        except subprocess.TimeoutExpired:
            end_group(process)
            stdout, stderr = process.communicate()
            return Outcome(None, stdout, stderr)


def end_group(process: subprocess.Popen) -> None:
    """Ends a program with its children: asked first, then forced."""
    for how, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, how)
            process.wait(timeout=patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


class Background:
    """A program that runs until it is ended; its output goes to a file."""

    def __init__(self, name: str, command: list[str], log: Path, env=None, cwd=None):
        self.name, self.log = name, log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_group(self.process)

    def until(self, what: str, holds, seconds: float = 30):
        """Waits until `holds()` gives something; fails when the program ends first."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := holds():
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        heard = self.log.read_text(errors="replace").strip()[-1500:]
        raise Failed(f"{self.name}: waited in vain until {what}; last output:\n{indented(heard)}")

    def until_listening(self, port: int):
        self.until(f"it listens on port {port}", lambda: listens(port))


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody listens on now, for programs that cannot choose one themselves."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
