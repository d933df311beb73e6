"""curl as a person types it, with --fail-with-body so that its exit code reports errors."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from clients.callers.calls import MESSAGES, URL, take_calls_as

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

CURL = ["curl", "--silent", "--show-error", "--no-buffer", "--fail-with-body", "--json", "@-"]

TOO_SLOW = ["--speed-limit", "100"]
"""Bytes per second over some seconds: more than the request alone, which counts too, and far less than comments."""


class CurlFailed(Exception):
    pass


class Curl:
    limit_s: float | None = None

    def ask(self, model: str) -> str:
        return str(json.loads("".join(run(model, ())))["choices"][0]["message"]["content"])

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        limit = [*TOO_SLOW, "--speed-time", str(int(limit_s))] if limit_s else []  # whole seconds only
        for line in run(model, limit, stream=True):
            data = line.removeprefix("data: ").strip()
            if data.startswith('{"id"'):
                yield json.loads(data)["choices"][0]["delta"]["content"]


def run(model: str, options: Sequence[str], **fields: Any) -> Generator[str, None, None]:
    """The lines curl prints; a failing exit code raises with all output that a person would have seen."""
    body = json.dumps({"model": model, "messages": MESSAGES, **fields})
    argv = [*CURL, *options, f"{URL}/v1/chat/completions"]
    with subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=subprocess.STDOUT, text=True) as curl:
        assert curl.stdin
        assert curl.stdout
        curl.stdin.write(body)
        curl.stdin.close()
        printed = []
        try:
            for line in curl.stdout:
                printed.append(line)
                yield line
        finally:
            curl.terminate()
    if curl.returncode:
        raise CurlFailed(f"exit code {curl.returncode}: {''.join(printed)}")


def curl_version() -> str:
    return subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


if __name__ == "__main__":
    take_calls_as(Curl(), curl_version())
