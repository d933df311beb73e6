"""Records what the real llama-server sends for requests of Ollama's API, and how that is translated, into `samples`.

usage: python -m tests.ollama
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from tests.ollama.recorded import ASKED, SAMPLES, Sample, translate
from tests.support.llama import EMBEDDINGS, command
from tests.support.ports import free_port
from tests.support.waiting import eventually

from hotseat.ollama.requests import ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = Path(__file__).with_name("chat_template.jinja")
TEMPLATED = f"--chat-template-file {shlex.quote(str(TEMPLATE))}"
GAPS = "--override-kv " + ",".join(f"tokenizer.ggml.fim_{part}_token_id=int:7" for part in ("pre", "suf", "mid"))


def main() -> None:
    with server("alpha", f"{TEMPLATED} {GAPS}") as chats, server("embed", EMBEDDINGS) as vectors:
        for name, (path, members) in ASKED.items():
            record(name, path, members, vectors if path.startswith("/api/embed") else chats)


@contextmanager
def server(weights: str, options: str) -> Iterator[int]:
    port = free_port()
    argv = shlex.split(command(weights, port, f"--alias {weights} {options}"))
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output)
        try:
            eventually(lambda: status(port) == 200)
            yield port
        finally:
            process.terminate()
            process.wait()


def status(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            return int(answer.status)
    except OSError:
        return 0


def record(name: str, path: str, members: dict[str, Any], port: int) -> None:
    asked = ENDPOINTS[path.encode()].read(json.dumps(members).encode())
    # As `filters.setParams` would: models with random weights call no tool of their own accord.
    forced = {"tool_choice": "required"} if "tools" in members else {}
    body = json.dumps({**json.loads(asked.body("alpha")), **forced}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{asked.target.decode()}", body)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request) as answer:
            sample = Sample(name, answer.status, answer.read())
    except HTTPError as error:
        sample = Sample(name, error.code, error.read())
    sample.upstream_file.write_bytes(sample.upstream)
    sample.client_file.write_bytes(translate(sample))
    print(f"{SAMPLES / name}: {sample.status}, {len(sample.upstream)} bytes")


if __name__ == "__main__":
    main()
