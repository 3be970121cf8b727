"""What is told while it runs, and what went wrong."""

import time

from .processes import Failed


class Report:
    def __init__(self):
        self.problems: list[str] = []
        self.begun = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:5.0f} s  {text}", flush=True)

    def fail(self, what: str, error: Failed) -> str:
        """Notes a failure; gives the word for it."""
        self.problems.append(f"{what}: {error}")
        self.say(f"failed: {what}")
        return "failed"
