"""A double of a model, for clients that call tools only when a model tells them to. It
speaks the APIs of three vendors on this machine, asks for the calls of a job one after
the other, and keeps what the client told it: the tools it has, and what they answered."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model:
    """The script: the job's calls, then a last word. A vendor's dialect reads a request
    as tools and answers, and puts the next call or the last word in its own form."""

    def __init__(self, dialect, calls):
        self.dialect, self.calls = dialect, calls
        self.tools, self.answers = [], []
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    def next(self, request):
        """The answer to a request of the client, as events."""
        offered = dict(self.dialect.tools(request))
        with self.lock:
            if not offered:
                # The client asks for something of its own, such as a title.
                return self.dialect.word("compat")
            self.tools = sorted(offered)
            self.answers = list(self.dialect.answers(request))
            done = len(self.answers)
            if done >= len(self.calls):
                return self.dialect.word("done")
            call = self.calls[done]
            name = self.dialect.shown(call["tool"])
            if name not in offered:
                return self.dialect.word(f"there is no tool {name}")
            return self.dialect.call(f"call_{done}", offered[name], call["arguments"])

    def said(self):
        return {"tools": self.tools, "answers": self.answers}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        request = json.loads(self.rfile.read(length) or b"{}")
        if not self.model.dialect.answers_at(self.path):
            return self.give(404, "application/json", b"{}")
        events = "".join(self.model.next(request))
        self.give(200, "text/event-stream", events.encode())

    def do_GET(self):
        self.give(404, "application/json", b"{}")

    def give(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def said(command, **env):
    """What a client's command prints; it has to succeed."""
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def event(data, name=None):
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


class Dialect:
    """What the dialects have in common."""

    def shown(self, tool):
        """The name by which the client shows a tool to the model."""
        return tool


class Anthropic(Dialect):
    """The Messages API, as Claude Code uses it."""

    def answers_at(self, path):
        return path.split("?")[0] == "/v1/messages"

    def tools(self, request):
        for tool in request.get("tools", []):
            if tool["name"].startswith("mcp__gate__"):
                yield tool["name"].removeprefix("mcp__gate__"), tool["name"]

    def answers(self, request):
        for message in request["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block["type"] == "tool_result":
                    content = block["content"]
                    parts = content if isinstance(content, list) else [{"text": content}]
                    text = "\n".join(part.get("text", "") for part in parts)
                    yield {"text": text, "error": bool(block.get("is_error"))}

    def call(self, number, name, arguments):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return self.message(block, delta, "tool_use")

    def word(self, text):
        return self.message({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn")

    def message(self, block, delta, reason):
        usage = {"input_tokens": 1, "output_tokens": 1}
        start = {"id": "msg_compat", "type": "message", "role": "assistant", "model": "compat", "content": []}
        start |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
        for data in (
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ):
            yield event(data, data["type"])


class OpenAi(Dialect):
    """The Responses API, as Codex uses it."""

    def shown(self, tool):
        return tool.replace("-", "_")

    def answers_at(self, path):
        return path.split("?")[0] == "/v1/responses"

    def tools(self, request):
        for tool in request.get("tools", []):
            # A server's tools are a namespace, or have its name before theirs.
            if tool["type"] == "namespace" and tool["name"].rstrip("_") == "mcp__gate":
                for inner in tool["tools"]:
                    yield inner["name"], (tool["name"], inner["name"])
            elif tool.get("name", "").startswith("mcp__gate__"):
                yield tool["name"].removeprefix("mcp__gate__"), (None, tool["name"])

    def answers(self, request):
        for item in request["input"]:
            if item["type"] == "function_call_output":
                output = item["output"]
                parts = output if isinstance(output, list) else [{"text": output}]
                # Whether it is an error is not said to the model, but printed by Codex.
                yield {"text": "\n".join(part.get("text", "") for part in parts)}

    def call(self, number, name, arguments):
        namespace, tool = name
        item = {"type": "function_call", "call_id": number, "name": tool, "arguments": json.dumps(arguments)}
        return self.response(item | ({"namespace": namespace} if namespace else {}))

    def word(self, text):
        content = [{"type": "output_text", "text": text}]
        return self.response({"type": "message", "role": "assistant", "id": "msg_compat", "content": content})

    def response(self, item):
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        for data in (
            {"type": "response.created", "response": {"id": "resp_compat"}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": "resp_compat", "usage": usage}},
        ):
            yield event(data, data["type"])


class Google(Dialect):
    """The Gemini API, as Gemini CLI uses it."""

    def answers_at(self, path):
        return ":streamGenerateContent" in path

    def tools(self, request):
        for group in request.get("tools", []):
            for tool in group.get("functionDeclarations", []):
                if tool["name"].startswith("mcp_gate_"):
                    yield tool["name"].removeprefix("mcp_gate_"), tool["name"]

    def answers(self, request):
        for content in request["contents"]:
            for part in content["parts"]:
                if "functionResponse" in part:
                    answer = part["functionResponse"]["response"]
                    yield {"text": answer.get("error") or answer["output"], "error": "error" in answer}

    def call(self, number, name, arguments):
        return self.candidate({"functionCall": {"id": number, "name": name, "args": arguments}})

    def word(self, text):
        return self.candidate({"text": text})

    def candidate(self, part):
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        yield event({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage})
