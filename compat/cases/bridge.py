"""Clients and servers that speak different eras of MCP."""

import json
from collections import Counter

from harness import gateway
from harness.case import Case, Context
from harness.peers import HERE, MODULES, NODE, PYTHON, SCRIPTS
from harness.processes import Failed, run

OPEN = {"version": "1", "default": "allow"}
TOKEN = "sg_compat_bridge"


def bridged(context: Context, url: str) -> gateway.Configuration:
    """A gateway in front of a server that clients are told is a modern one."""
    configuration = gateway.Configuration(context.folder / "gateway")
    configuration.section("servers", "asking", url=url, bridge="modern")
    configuration.policy("asking", "open", OPEN)
    configuration.section("grants", "agent", servers=["asking"], policy="open", token=TOKEN)
    return configuration


def asked(context: Context, url: str, calls: list[dict], seconds: float) -> dict:
    """What came of these calls, each begun a little after the one before."""
    job = {"url": url, "token": TOKEN, "calls": calls, "milliseconds": int(seconds * 1000)}
    command = [str(NODE), str(SCRIPTS / "asking_client.mjs"), json.dumps(job)]
    outcome = run(command, seconds + 30, env=context.environment())
    if outcome.code != 0:
        raise Failed(f"the client failed: {outcome.last_words()}")
    return json.loads(outcome.stdout.splitlines()[-1])


def every_question_is_asked_or_refused(context: Context, command, path, tools: dict) -> None:
    calls = [{"tool": tool, "arguments": arguments} for tool, arguments in tools.items()] * 30
    env = context.environment()
    with gateway.http_server("asking", command, path, context.folder, env) as server:
        with gateway.started(context.sluice, bridged(context, server)) as url:
            # Well below the minute after which the gateway gives a call up.
            said = asked(context, f"{url}/asking", calls, 30)
    outcomes = said["outcomes"]
    hung = [end for end in outcomes if "thrown" in end or end["took"] > 20_000]
    if hung:
        count = Counter(end["tool"] for end in hung)
        raise Failed(f"{len(hung)} of {len(outcomes)} calls hung or failed ({dict(count)}): {hung[0]}")
    # All may be refused without a call that hangs, but then nothing was tried.
    if said["asked"] < len(outcomes) / 2:
        raise Failed(f"the client was asked only {said['asked']} times by {len(outcomes)} calls")


def asked_by_everything(context: Context) -> None:
    everything = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
    tools = {
        "trigger-elicitation-request": {},
        "trigger-sampling-request": {"prompt": "say something", "maxTokens": 10},
    }
    command = (str(NODE), str(everything), "streamableHttp")
    every_question_is_asked_or_refused(context, command, "/mcp", tools)


def asked_beside_calls(context: Context) -> None:
    command = (str(NODE), str(SCRIPTS / "asking_server.mjs"))
    tools = {"ask": {}, "ask-beside": {}}
    every_question_is_asked_or_refused(context, command, "/mcp", tools)


REASON = "Research is for people."


def a_denied_task_shows_its_reason(context: Context) -> None:
    rules = {
        "version": "1",
        "default": "allow",
        "tools": {"simulate-research-query": {"action": "deny", "reason": REASON}},
    }
    configuration = gateway.Configuration(context.folder / "gateway")
    everything = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
    command = (str(NODE), str(everything), "streamableHttp")
    env = context.environment()
    with gateway.http_server("everything", command, "/mcp", context.folder, env) as server:
        configuration.section("servers", "everything", url=server)
        configuration.policy("everything", "judged", rules)
        keys = {"servers": ["everything"], "policy": "judged", "token": TOKEN}
        configuration.section("grants", "agent", **keys)
        with gateway.started(context.sluice, configuration) as url:
            call = {"tool": "simulate-research-query", "arguments": {"topic": "gates"}}
            job = {"url": f"{url}/everything", "token": TOKEN, **call}
            script = [str(NODE), str(SCRIPTS / "denied_task.mjs"), json.dumps(job)]
            outcome = run(script, 60, env=env)
    if outcome.code != 0:
        raise Failed(f"the client failed: {outcome.last_words()}")
    shown = json.loads(outcome.stdout.splitlines()[-1])["shown"]
    if [part["type"] for part in shown] != ["error"] or REASON not in shown[0]["text"]:
        raise Failed(f"the client does not show why the call was denied: {shown}")


def wrapped(context: Context, client: list[str], mode: str, server: list[str], call: dict, forbidden: str):
    """What a client of one era gets from a command of the other, behind `sluice wrap`."""
    rules = {"version": "1", "default": "allow", "tools": {forbidden: {"action": "deny", "reason": REASON}}}
    policy = context.folder / "policy.json"
    policy.write_text(json.dumps(rules))
    data = str(context.folder / "data")
    command = [str(context.sluice), "--data", data, "wrap", "--policy", str(policy), "--", *server]
    calls = [call, {"tool": forbidden, "arguments": {}}]
    job = {"command": command, "mode": mode, "calls": calls}
    outcome = run([*client, json.dumps(job)], 60, env=context.environment())
    if outcome.code != 0:
        raise Failed(f"the client failed: {outcome.last_words()}")
    said = json.loads(outcome.stdout.splitlines()[-1])
    if call["tool"] not in said["tools"]:
        raise Failed(f"`{call['tool']}` is not in the list: {said['tools']}")
    if REASON not in said["answers"][1]["text"]:
        raise Failed(f"the denial does not say why: {said['answers'][1]}")
    return said


def expect(part: str, said: dict) -> None:
    answer = said["answers"][0]
    if answer["error"] or part not in answer["text"]:
        raise Failed(f"expected `{part}`, got {answer}")


def a_modern_client_before_a_legacy_command(context: Context) -> None:
    everything = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
    client = [str(PYTHON), str(HERE / "clients/python_sdk.py")]
    call = {"tool": "echo", "arguments": {"message": "across"}}
    server = [str(NODE), str(everything), "stdio"]
    said = wrapped(context, client, "modern", server, call, "get-env")
    expect("Echo: across", said)
    if said["revision"] != "2026-07-28":
        raise Failed(f"the client speaks {said['revision']}")


def a_legacy_client_before_a_modern_command(context: Context) -> None:
    client = [str(NODE), str(SCRIPTS / "asked_stdio_client.mjs")]
    call = {"tool": "greet", "arguments": {}}
    server = [str(NODE), str(SCRIPTS / "modern_server.mjs")]
    expect("hello Ada", wrapped(context, client, "legacy", server, call, "forbidden"))


CASES = [
    Case(
        'Through `bridge = "modern"`, every question of server-everything in 60 calls that overlap is '
        "put to a modern client or refused",
        asked_by_everything,
    ),
    Case(
        'Through `bridge = "modern"`, every question that a legacy server asks on the stream of its '
        "session, in 60 calls that overlap, is put to a modern client or refused",
        asked_beside_calls,
    ),
    Case(
        "A denied call of which the TypeScript SDK 1 wants a task made shows the policy's reason",
        a_denied_task_shows_its_reason,
    ),
    Case(
        "`sluice wrap` before server-everything, a legacy server, serves the Python SDK in the modern era alone",
        a_modern_client_before_a_legacy_command,
    ),
    Case(
        "`sluice wrap` before a server of the TypeScript SDK 2 that refuses the legacy era serves the "
        "TypeScript SDK 1, and its questions reach the client",
        a_legacy_client_before_a_modern_command,
    ),
]
