"""The two sides of the comparison: a bare harness that drives llama-server directly, and hotseat.

Both start servers through the same few lines of shell, which record when the process runs. A swap is divided into
parts; each part ends where the next begins, so they add up to what the client waited.
"""

from __future__ import annotations

import http.client
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from tests.support.client import send
from tests.support.hotseat import Hotseat
from tests.support.llama import command
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.support.client import Stream

    from hotseat.identifiers import Seconds

PARTS = {
    "decide": "from the client's request to the decision that the old model leaves",
    "drain": "until the old model's last request has ended and it is told to stop",
    "stop": "until all processes of the old model have exited",
    "start": "until its memory is free and the new process runs",
    "load": "until the new server passes its health check",
    "first byte": "until the client has the first byte of the response",
}


@dataclass(frozen=True, slots=True)
class Swap:
    case: str
    side: str
    spans: dict[str, float]
    words: float = 0.0
    """Per second, of a model that was in use meanwhile."""

    @property
    def total(self) -> Seconds:
        return sum(self.spans.values())

    @property
    def after_drain(self) -> Seconds:
        """The rest of the swap after the old model's last request has ended."""
        return self.total - self.spans.get("decide", 0.0) - self.spans.get("drain", 0.0)


def cut(parts: Iterable[str], moments: Sequence[float]) -> dict[str, Seconds]:
    """The parts between successive moments."""
    return {part: max(0.0, later - earlier) for part, (earlier, later) in zip(parts, pairwise(moments), strict=True)}


def spans_from_journal(
    history: Sequence[Mapping[str, Any]], wanted: str, sent: float, began: float, first_byte: float
) -> dict[str, Seconds]:
    """A swap to `wanted` that has just ended: its journal entries, newest last, and the moments measured elsewhere."""
    arrived = last(history, lambda entry: is_about(entry["event"], "RequestArrived", wanted))
    stopped = last(history, lambda entry: any(each["type"] == "StopUpstream" for each in entry["commands"]))
    started = last(history, lambda entry: any(is_about(each, "StartUpstream", wanted) for each in entry["commands"]))
    ready = last(history, lambda entry: is_about(entry["event"], "UpstreamReady", wanted))
    return cut(PARTS, [sent, arrived, stopped, started, began, ready, first_byte])


def is_about(fact: Mapping[str, Any], kind: str, model: str) -> bool:
    return bool(fact["type"] == kind and fact["model"] == model)


def last(history: Sequence[Mapping[str, Any]], fits: Callable[[Mapping[str, Any]], bool]) -> float:
    """When the last matching entry was written."""
    return float(next(entry["at"] for entry in reversed(history) if fits(entry)))


REST, TINY, BIG = "beta", "alpha", "big"
PATIENCE_S: Seconds = 60.0
LISTEN_S: Seconds = 1.0
"""How long the speed of a model in use is measured while another one's files are read."""
MARKED = """#!/bin/bash
# When the process runs, in seconds since the epoch; then the server, under the same process id.
echo "$EPOCHREALTIME" >"$1"
shift
exec "$@"
"""
MEMORY = {REST: "2GiB", TINY: "2GiB", BIG: "3GiB"}
BUDGET = "3GiB"
"""Of RAM for models: enough for one of them."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Servers that record when they start."""

    folder: Path

    def __post_init__(self) -> None:
        self._script.write_text(MARKED)
        self._script.chmod(0o755)

    @property
    def _script(self) -> Path:
        return self.folder / "marked.sh"

    def command(self, name: str, port: str | int) -> str:
        return f"{shlex.quote(str(self._script))} {shlex.quote(str(self.folder / name))} {command(name, port)}"

    def began(self, name: str) -> float:
        return float((self.folder / name).read_text())


class Bare:
    """One llama-server at a time."""

    def __init__(self, folder: Path) -> None:
        self._marks = Marks(folder)
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.swap_to(REST)
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop()

    def swap_to(self, name: str) -> dict[str, Seconds]:
        sent = time.time()
        self._stop()
        stopped, port = time.time(), free_port()
        argv = shlex.split(self._marks.command(name, port))
        # A session of its own, as hotseat gives it: on a busy machine the kernel divides its cores among sessions.
        quiet = subprocess.DEVNULL
        self._server = subprocess.Popen(argv, stdout=quiet, stderr=quiet, start_new_session=True)
        until = time.monotonic() + PATIENCE_S
        while not is_healthy(port):
            if time.monotonic() > until:
                raise SystemExit(f"llama-server was not ready within {PATIENCE_S} s: {shlex.join(argv)}")
            time.sleep(0.001)
        ready = time.time()
        moments = [sent, stopped, self._marks.began(name), ready, first_byte(port, name)]
        return cut([*PARTS][2:], moments)

    def _stop(self) -> None:
        if self._server:
            self._server.terminate()
            self._server.wait(timeout=PATIENCE_S)
            self._server = None


class Proxied:
    """hotseat with memory for one of these models at a time."""

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self._marks = Marks(folder)
        models = {name: {"cmd": self._marks.command(name, "${PORT}"), "memory": size} for name, size in MEMORY.items()}
        config = {"devices": {"ram": {"memory": BUDGET}}, "models": models, **(settings or {})}
        self.hotseat = Hotseat(config, folder)

    def __enter__(self) -> Self:
        self.hotseat.__enter__()
        first_byte(self.hotseat.port, REST)
        return self

    def __exit__(self, *problem: object) -> None:
        self.hotseat.__exit__(*problem)

    def swap_to(self, name: str) -> dict[str, Seconds]:
        sent = time.time()
        answered = first_byte(self.hotseat.port, name)
        return spans_from_journal(self._history(name), name, sent, self._marks.began(name), answered)

    def swap_behind_drain(self, name: str, drain_s: Seconds) -> tuple[dict[str, Seconds], float]:
        """A swap while the old model is in use for so long; with the words per second of its client."""
        with ThreadPoolExecutor(1) as others:
            stream = self.hotseat.stream(REST, max_tokens=100_000).until_it_speaks()
            swap = others.submit(self.swap_to, name)
            try:
                rate = words_per_second(stream, drain_s)
            finally:
                stream.leave()
            return swap.result(), rate

    def _history(self, name: str) -> list[dict[str, Any]]:
        """The journal entries of the model and of the one before it, each once."""
        found = {entry["n"]: entry for model in (REST, name) for entry in self._entries_of(model)}
        return [found[n] for n in sorted(found)]

    def _entries_of(self, model: str) -> list[dict[str, Any]]:
        return list(self.hotseat.call("GET", f"/hotseat/models/{model}").json()["history"])


def words_per_second(stream: Stream, seconds: Seconds) -> float:
    """Read for so long; the speed in the first part of it, while files are read."""
    began, before = time.monotonic(), len(stream.words)
    said = before
    for _ in stream:
        elapsed = time.monotonic() - began
        if elapsed <= LISTEN_S:
            said = len(stream.words)
        if elapsed >= seconds:
            break
    return (said - before) / LISTEN_S


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        return send(connection, "GET", "/health", None, {}).status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def first_byte(port: int, name: str) -> float:
    """Request one token; returns when the first byte of the answer arrived."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        response = send(connection, "POST", "/completion", {"model": name, "prompt": "hi", "n_predict": 1}, {})
        response.read(1)
        came, body = time.time(), response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise SystemExit(f"no answer from {name}: {response.status} {body[:300]!r}")
    return came
