"""The clients: wrk for requests, a C program for streams, plain sockets for idle connections. All have time limits."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bench.relay.processes import LOAD_CORE, Failure, pinned
from bench.relay.tools import c_program, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Moment: TypeAlias = "Callable[[], None]"

CHAT = "/v1/chat/completions"
SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer sk-bench"
wrk.body = io.open("{body}", "rb"):read("*a")
function done(all, latency)
  local e = all.errors
  io.write(string.format('JSON {{"count":%d,"us":%d,"p50":%d,"p99":%d,"errors":%d}}\\n', all.requests, all.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a client measured: the number of answers or events, the time, and the delays."""

    count: int
    seconds: float
    p50_us: float
    p99_us: float
    starved: int = 0
    """Streams that received nothing at all: the proxy cannot keep up."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The same request repeatedly, on many connections."""

    path: str
    body: bytes
    folder: Path

    def send(self, port: int, clients: int, seconds: int, cores: Sequence[int] = LOAD_CORE) -> Answered:
        body, script = self.folder / "body.json", self.folder / "wrk.lua"
        body.write_bytes(self.body)
        script.write_text(SCRIPT.format(body=body))
        options = ["-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script)]
        argv = pinned([program("wrk"), *options, f"http://127.0.0.1:{port}{self.path}"], cores)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 60, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("JSON ")]
        if not lines:
            raise Failure(f"wrk failed: {done.stdout[-300:]}{done.stderr[-300:]}")
        return _requests_answered(json.loads(lines[0].removeprefix("JSON ")))


def chat(size: int) -> bytes:
    """A chat request of about this many bytes; `model` comes first, for proxies that read only a part of it."""
    request = {"model": "bench", "max_tokens": 256, "messages": [{"role": "user", "content": ""}]}
    padding = "lorem ipsum " * (size // 12 + 1)
    request["messages"] = [{"role": "user", "content": padding[: size - len(json.dumps(request))]}]
    return json.dumps(request).encode()


ONE_TOKEN = json.dumps({"model": "llama", "prompt": "hi", "n_predict": 1}).encode()


def _requests_answered(report: dict[str, int]) -> Answered:
    if report["errors"] or not report["count"]:
        raise Failure(f"{report['errors']} of {report['count']} requests failed")
    return Answered(report["count"], report["us"] / 1e6, report["p50"], report["p99"])


@dataclass(frozen=True, slots=True)
class Streams:
    """Many streams at once, every event checked."""

    count: int
    rate: int
    settle_s: float
    measure_s: float
    path: str = CHAT

    def read(self, port: int, at_start: Moment, at_end: Moment) -> Answered:
        """Read all streams; calls `at_start` and `at_end` at the edges of the window, with all streams open."""
        numbers = (port, self.count, self.rate, self.settle_s, self.measure_s)
        argv = pinned([str(c_program("streams")), *map(str, numbers), self.path], LOAD_CORE)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as client:
            try:
                return self._answered(client, at_start, at_end)
            finally:
                client.kill()

    def _answered(self, client: subprocess.Popen[str], at_start: Moment, at_end: Moment) -> Answered:
        for line in client.stdout or ():
            match line.strip():
                case "START":
                    at_start()
                case "END":
                    at_end()
                case report:
                    return _events_answered(json.loads(report), self.measure_s)
        raise Failure("the streams' client ended without a word")


def _events_answered(report: dict[str, int], seconds: float) -> Answered:
    faults = {name: report[name] for name in ("refused", "garbled", "disordered", "cut") if report[name]}
    if faults:
        raise Failure("streams: " + ", ".join(f"{count} {name}" for name, count in faults.items()))
    return Answered(report["events"], seconds, report["p50"], report["p99"], report["starved"])


@contextmanager
def idle_connections(port: int, count: int, body: bytes) -> Iterator[None]:
    """Connections on which one request was answered and which are now idle."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.sendall(request)
            _read_answer(connection)
        yield


def _read_answer(connection: socket.socket) -> None:
    """Read until the JSON of our upstream is complete, whatever the framing."""
    answer = b""
    while b'"finish_reason":"stop"}]}' not in answer:
        received = connection.recv(65536)
        if not received:
            raise Failure(f"an idle connection was closed: {answer[:200]!r}")
        answer += received
    if not answer.startswith(b"HTTP/1.1 200"):
        raise Failure(f"an idle connection got {answer[:100]!r}")
