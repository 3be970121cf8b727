"""The public conformance suite, run on a server with and without the gateway
before it, and compared check by check."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .peers import MODULES, NODE, environment
from .processes import Failed, run

# What the gateway does better than a server: it checks the Host header itself, and
# says of a session that was ended that it is gone.
BETTER = {
    ("server-everything", "dns-rebinding-protection / localhost-host-rebinding-rejected"),
    ("server-everything", "server-session-lifecycle / server-session-terminated-returns-404"),
}
# Revisions that a server does not speak. What the gateway answers in its place is
# its own, and must only not be worse.
FOREIGN = {("server-everything", "2026-07-28")}

SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
REVISIONS = ("2025-11-25", "2026-07-28")

# Statuses of a scenario's checks: {scenario: {check: [status, ...]}}.
Results = dict[str, dict[str, list[str]]]


@dataclass
class Difference:
    """A check that comes out otherwise behind the gateway."""

    check: str  # scenario / check
    direct: list[str]
    through: list[str]

    def is_better(self) -> bool:
        return not passes(self.direct) and passes(self.through)

    def is_worse(self) -> bool:
        return self.through.count("SUCCESS") < self.direct.count("SUCCESS")

    def __str__(self) -> str:
        return f"{self.check}: {said(self.direct)} without the gateway, {said(self.through)} with it"


def results(url: str, revision: str, folder: Path) -> Results:
    """Runs everything that belongs to a revision, scored or not."""
    out = folder / "results"
    command = [str(NODE), str(SUITE), "server", "--url", url, "--requirements", revision]
    outcome = run([*command, "-o", str(out)], 180, env=environment(folder / "home"), cwd=folder)
    # It ends with 1 where a check fails, which is for the comparison to judge.
    found = {name_of(path): checks_of(path) for path in sorted(out.glob("*/checks.json"))}
    if outcome.code not in (0, 1) or not found:
        raise Failed(f"the conformance suite at {url} for {revision}: {outcome.last_words()}")
    return found


def name_of(checks: Path) -> str:
    return re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*$", r"\1", checks.parent.name)


def checks_of(path: Path) -> dict[str, list[str]]:
    checks: dict[str, list[str]] = {}
    for check in json.loads(path.read_text()):
        if check["status"] != "INFO":
            checks.setdefault(check["id"], []).append(check["status"])
    return checks


def judged(name: str, revision: str, url: str, through_url: str, folder: Path) -> tuple[str, str]:
    """How many checks a server passes, and in words how it does behind the gateway."""
    found = []
    for way, place in (("direct", url), ("through", through_url)):
        (folder / way).mkdir(parents=True)
        found.append(results(place, revision, folder / way))
    passed, total = count(found[0])
    differences = compare(*found)
    if (name, revision) in FOREIGN:
        bad = [one for one in differences if one.is_worse()]
        words = "no check is worse; the server does not speak this revision"
    else:
        better = [one for one in differences if one.is_better() and (name, one.check) in BETTER]
        bad = [one for one in differences if one not in better]
        named = ", ".join(f"`{one.check}`" for one in better)
        words = f"the same, and better in {named}" if better else "the same, check by check"
    if bad:
        raise Failed("\n" + "\n".join(f"    {one}" for one in bad))
    return f"{passed} of {total} checks", words


def compare(direct: Results, through: Results) -> list[Difference]:
    found = []
    for scenario in sorted(direct.keys() | through.keys()):
        before, after = direct.get(scenario, {}), through.get(scenario, {})
        for check in sorted(before.keys() | after.keys()):
            was, now = before.get(check, []), after.get(check, [])
            if was != now:
                found.append(Difference(f"{scenario} / {check}", was, now))
    return found


def count(results: Results) -> tuple[int, int]:
    """How many checks pass, and how many there are."""
    statuses = [status for checks in results.values() for found in checks.values() for status in found]
    return statuses.count("SUCCESS"), len(statuses)


def passes(statuses: list[str]) -> bool:
    return bool(statuses) and set(statuses) == {"SUCCESS"}


def said(statuses: list[str]) -> str:
    return ", ".join(statuses) if statuses else "nothing"
