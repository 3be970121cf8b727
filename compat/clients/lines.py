"""Speaking JSON, one message a line, with a program on its standard streams."""

import json
import subprocess
import sys
import threading


class Lines:
    def __init__(self, command, seconds=40, env=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=env
        )
        # Whatever it waits for, it does not wait for ever.
        self.alarm = threading.Timer(seconds, self.process.kill)
        self.alarm.start()
        self.last = 0

    def say(self, **message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params, **more):
        """The result of a request."""
        self.last += 1
        self.say(**more, id=self.last, method=method, params=params)
        for line in self.process.stdout:
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]
        sys.exit(f"{method}: it ended without an answer")

    def close(self):
        self.alarm.cancel()
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
