"""Speaking JSON, one message a line, with a program on its standard streams."""

import json
import subprocess
import sys
import threading


class Lines:
    """A program that is asked. `hear` gets each notification, `answer` each request
    of its own, and gives the result."""

    def __init__(self, command, seconds=40, env=None, hear=None, answer=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=env
        )
        # Whatever it waits for, it does not wait for ever.
        self.alarm = threading.Timer(seconds, self.process.kill)
        self.alarm.start()
        self.last = 0
        self.hear, self.answer = hear, answer

    def say(self, **message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params, **more):
        """The result of a request."""
        self.last += 1
        self.say(**more, id=self.last, method=method, params=params)
        for line in self.process.stdout:
            message = json.loads(line) if line.startswith("{") else {}
            if "method" in message:
                self.take(message, more)
            elif message.get("id") == self.last:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]
        sys.exit(f"{method}: it ended without an answer")

    def take(self, message, more):
        """A message that is not an answer."""
        if "id" in message and self.answer:
            self.say(**more, id=message["id"], result=self.answer(message))
        elif "id" not in message and self.hear:
            self.hear(message)

    def close(self):
        self.alarm.cancel()
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
