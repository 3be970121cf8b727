"""One client with one server behind the gateway: what must come of it."""

import json
from dataclasses import dataclass
from pathlib import Path

from .peers import environment
from .processes import Failed, indented, run
from .table import REASON, Client, Server

# How long a client may take for its job.
SECONDS = 60
# The servers that notify pause for a second before the last notification. What was
# sent before the pause is heard at once, and so well before the answer.
EARLIER = 0.3


@dataclass(frozen=True)
class Result:
    """What a client did, in the words of the matrix."""

    did: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.did} ({self.revision})" if self.revision else self.did


def tried(client: Client, server: Server, reached: dict, folder: Path) -> Result:
    """Lets a client do its job with a server that is reached by URL and token or by
    command, and fails where the gateway did not do its own."""
    calls = [server.allowed, server.denied, server.limited, server.limited]
    if client.answers and server.asks:
        calls.append(server.asks)
    called = [{"tool": call.tool, "arguments": call.arguments} for call in calls]
    job = {**reached, "mode": client.mode, "calls": called}
    env = environment(folder)
    outcome = run([*client.command, json.dumps(job)], SECONDS, env=env, cwd=folder)
    if outcome.code != 0:
        raise Failed(outcome.last_words())
    try:
        said = json.loads(outcome.stdout.strip().splitlines()[-1])
        problems = list(wrong(client, server, said))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise Failed(f"it did not say what came of its job ({error!r}): {outcome.last_words()}") from error
    if problems:
        raise Failed("\n".join(problems) + f"\nit said:\n{indented(json.dumps(said, indent=1)[-1500:])}")
    return Result(words(client, server), said.get("revision"))


def words(client: Client, server: Server) -> str:
    """What a client did with a server, where nothing went wrong."""
    did = ["judged"]
    if client.hears and server.notifies:
        did.append("notified")
    if client.answers and server.asks:
        did.append("asked")
    return ", ".join(did)


def wrong(client: Client, server: Server, said: dict):
    """What is not as it must be."""
    named = {server.allowed.tool, server.denied.tool, server.limited.tool}
    yield from (f"expected `{tool}` in the list" for tool in sorted(named) if client.shows(tool) not in said["tools"])
    if server.hidden and client.shows(server.hidden) in said["tools"]:
        yield f"expected `{server.hidden}` to be hidden"
    allowed, denied, first, second, *asked = said["answers"]
    for what, answer in (("the allowed call", allowed), ("the first limited call", first)):
        if answer["error"]:
            yield f"expected {what} to pass"
    if server.says not in allowed["text"]:
        yield f"expected the allowed call to answer `{server.says}`"
    for what, answer, reason in (("denied", denied, REASON), ("second limited", second, "limit")):
        if not answer["error"] or "[POLICY DENIED]" not in answer["text"] or reason not in answer["text"]:
            yield f"expected the {what} call to be refused with a reason that has `{reason}` in it"
    if client.hears and server.notifies:
        yield from not_heard(server, allowed["heard"])
    if client.answers and server.asks:
        [answer] = asked
        if answer["error"] or server.answered not in answer["text"]:
            yield f"expected the call that asks to answer `{server.answered}`"


def not_heard(server: Server, heard: list[dict]):
    """What is wrong with the notifications that came before the answer."""
    kinds = tuple(one["kind"] for one in heard)
    if kinds != server.notifies:
        yield f"expected the notifications {server.notifies} before the answer, in this order"
        return
    for one in heard[:-1]:
        if one["seconds"] < EARLIER:
            yield f"expected the notification `{one['kind']}` at once, and not with the answer"
