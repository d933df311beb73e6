"""A stand-in for vLLM's sleep mode: a standalone program that uses the standard library only.

    VLLM_SERVER_DEV_MODE=1 python -I -S vllm_stand_in.py --port 8080 [--load S] [--sleep S] [--wake S] [--trouble NAME]

It answers as vLLM 0.32.0 does: `/sleep` aborts generation unless `mode=wait`, and is unknown without
VLLM_SERVER_DEV_MODE; `/health` always succeeds; a request that arrives during sleep gets no answer until the server is
awake; waking weights alone does not wake it. `--trouble` makes sleep fail. It prints everything it does.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TROUBLES = ("", "sleep refused", "sleep hangs", "wake refused", "wake hangs", "dies falling asleep", "dies waking")


class Engine:
    """The part that sleeps: memory by tag, and the requests in generation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.changed = threading.Condition()
        self.discarded: set[str] = set()
        self.is_paused = False
        self.lacks_weights = False
        """After level 2, until they are reloaded."""
        self.running = 0
        self.aborts = 0

    def sleep(self, level: int, mode: str) -> None:
        self._trouble("sleep refused", "sleep hangs", "dies falling asleep")
        with self.changed:
            self.is_paused = True
            if mode == "abort" and self.running:
                self.aborts += 1
                say(f"aborted {self.running}")
                self.changed.notify_all()
            self.changed.wait_for(lambda: not self.running)
        time.sleep(self.options.sleep)
        self.discarded = {"weights", "kv_cache"} if level else set()
        self.lacks_weights = level == 2
        say(f"asleep {level}")

    def wake(self, tags: list[str]) -> bool:
        self._trouble("wake refused", "wake hangs", "dies waking")
        time.sleep(self.options.wake)
        with self.changed:
            self.discarded -= set(tags or self.discarded)
            self.is_paused = bool(self.discarded)
            self.changed.notify_all()
        if not self.is_paused:
            say("awake")
        return not self.is_paused

    def generate(self, seconds: float) -> str:
        """Returns the finish reason."""
        with self.changed:
            self.changed.wait_for(lambda: not self.is_paused)
            self.running += 1
            say("generating")
            before = self.aborts
            self.changed.wait_for(lambda: self.aborts != before, timeout=seconds)
            self.running -= 1
            self.changed.notify_all()
            return "abort" if self.aborts != before else "garbage" if self.lacks_weights else "length"

    def _trouble(self, refused: str, hangs: str, dies: str) -> None:
        if self.options.trouble == refused:
            raise RuntimeError("EngineCore encountered an issue.")
        if self.options.trouble == hangs:
            threading.Event().wait()
        if self.options.trouble == dies:
            os._exit(3)


class Handler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, said = self._about(url.path, parse_qs(url.query), json.loads(body or b"{}"))
        except RuntimeError as problem:
            status, said = 500, {"error": {"message": str(problem), "type": "InternalServerError", "code": 500}}
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _about(self, path: str, query: dict[str, list[str]], asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/health":
            return 200, {}
        if path.startswith("/v1/") and self.command == "POST":
            return 200, self._completion(asked)
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            return self._in_development(path, query, asked)
        return 404, {"detail": "Not Found"}

    def _in_development(
        self, path: str, query: dict[str, list[str]], asked: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        match self.command, path:
            case "GET", "/is_sleeping":
                return 200, {"is_sleeping": self.engine.is_paused}
            case "POST", "/sleep":
                level = int(query.get("level", ["1"])[0])
                self.engine.sleep(level, query.get("mode", ["abort"])[0])
                return 200, {"status": "sleeping", "level": level}
            case "POST", "/wake_up":
                tags = query.get("tags", [])
                return 200, {"status": "awake" if self.engine.wake(tags) else "sleeping", "tags": tags or None}
            case "POST", "/collective_rpc":
                self.engine.lacks_weights &= asked["method"] != "reload_weights"
                return 200, {"results": [None]}
            case _:
                return 404, {"detail": "Not Found"}

    def _completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        reason = self.engine.generate(float(asked.get("seconds", 0)))
        choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion", "model": asked.get("model"), "choices": [choice]}


class Server(ThreadingHTTPServer):
    daemon_threads = True


def say(what: str) -> None:
    print(what, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    for name in ("--load", "--sleep", "--wake"):
        parser.add_argument(name, type=float, default=0.0)
    parser.add_argument("--trouble", choices=TROUBLES, default="")
    parser.add_argument("--enable-sleep-mode", action="store_true")
    options = parser.parse_args()
    time.sleep(options.load)
    Handler.engine = Engine(options)
    Server(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
