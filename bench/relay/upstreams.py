"""The upstreams of the proxies: a C program for most cells, and the real llama-server."""

from __future__ import annotations

import json
import shlex
import urllib.request
from dataclasses import dataclass

from bench.relay.processes import LOAD_CORE, Failure, pinned
from bench.relay.tools import c_program
from tests.support.llama import command


@dataclass(frozen=True, slots=True)
class Counts:
    accepted: int
    requests: int
    streams: int


def bench_command(port: int) -> list[str]:
    return pinned([str(c_program("upstream")), str(port)], LOAD_CORE)


def llama_command(port: int) -> list[str]:
    return shlex.split(command("alpha", port, "-np 8"))


def counts(port: int) -> Counts:
    """The upstream's counters; this request does not count."""
    try:
        return Counts(**json.loads(fetch(port, "/counts")))
    except OSError as problem:
        raise Failure(f"the upstream on port {port} does not answer: {problem}") from problem


def fetch(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return bytes(answer.read())


def is_healthy(port: int) -> bool:
    try:
        fetch(port, "/health")
    except OSError:
        return False
    return True
