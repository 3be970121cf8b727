"""One behaviour that once broke with real peers, as a check of the real binary."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .peers import environment
from .processes import Failed


@dataclass(frozen=True)
class Context:
    """What a case works with: the binaries, and an empty folder of its own."""

    sluice: Path  # the gateway's binary
    peers: Path  # the folder of `compat-server` and `compat-client`
    folder: Path

    def environment(self) -> dict[str, str]:
        """The environment of a program that the case starts; its home is in the folder."""
        return environment(self.folder / "home")


@dataclass(frozen=True)
class Case:
    """A behaviour, and the function that raises `Failed` where it does not hold."""

    title: str  # what holds, as a sentence of the matrix
    check: Callable[[Context], None] = field(repr=False)

    def run(self, sluice: Path, peers: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        try:
            self.check(Context(sluice, peers, folder))
        except Failed:
            raise
        except Exception as error:
            # Whatever a peer did, the other cases go on.
            raise Failed(f"{type(error).__name__}: {error}") from error
        shutil.rmtree(folder, ignore_errors=True)
