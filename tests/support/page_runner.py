"""Follows a documentation page: runs its commands, writes its files, and compares the output with what is shown.

Blocks of a page, in its order:
- `sh` runs as a whole; a block that ends with `hotseat serve` or `nats-server` keeps running.
- `console` has commands after `$ `, each followed by its output; … stands for anything in a line, or for lines.
- Any block after the comment `<!-- file: NAME -->` is written to that file.
- A block after `<!-- not run: REASON -->` is skipped.
`<!-- models: small large -->` puts small.gguf and large.gguf into the reader's ~/models. Only ports and the number of
words differ from what a person would see.
"""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from tests.support.client import PATIENCE_S
from tests.support.hotseat import PROGRAM, START_S
from tests.support.llama import SERVER, model_file, present
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELL = ("sh", "console")
BLOCK = re.compile(r"(?:^<!-- (file|not run): (.+?) -->\n+)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVERS = ("hotseat serve", "nats-server")
USUAL_PORTS = (8080, 8081, 8082, 4222)
LISTENS = re.compile(r"--listen \S+:(\d+)")
MODELS = re.compile(r"^<!-- models: (.+) -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    text: str
    mark: str = ""
    about: str = ""
    """The file's name, or why it is not run."""


def blocks_of(page: str) -> list[Block]:
    return [Block(kind, text, mark, about) for mark, about, kind, text in BLOCK.findall(page)]


def can_be_followed(page: str) -> bool:
    """Whether a page has commands to run."""
    return any(block.kind in SHELL and block.mark != "not run" for block in blocks_of(page))


class Reader:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = {usual: free_port() for usual in USUAL_PORTS}
        self.port = self.ports[8080]
        path = os.pathsep.join([str(PROGRAM.parent), str(present(SERVER).parent), os.environ["PATH"]])
        said = {"HOME": str(home), "PATH": path, "HOTSEAT_URL": f"http://127.0.0.1:{self.port}", "NO_COLOR": "1"}
        self._environment = {**os.environ, **said, "LLAMA_ARG_THREADS": "1", "LLAMA_ARG_N_PREDICT": "8"}
        self._servers: list[subprocess.Popen[str]] = []

    def follow(self, page: str) -> None:
        for names in MODELS.findall(page):
            self.put_models(names.split())
        for block in blocks_of(page):
            self._do(block)

    def put_models(self, names: list[str]) -> None:
        folder = self.home / "models"
        folder.mkdir(exist_ok=True)
        for name, weights in zip(names, cycle(("alpha", "beta")), strict=False):
            (folder / f"{name}.gguf").symlink_to(model_file("embed" if name.startswith("embed") else weights))

    def _do(self, block: Block) -> None:
        if block.mark == "file":
            self._write(block.about, block.text)
        elif block.mark == "not run":
            return
        elif block.kind == "sh":
            self.paste(block.text)
        elif block.kind == "console":
            self._compare(block.text)

    def _write(self, name: str, text: str) -> None:
        target = self.home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._with_port(text))

    def paste(self, command: str) -> str:
        """Run it and return its output; servers keep running."""
        *before, last = command.strip().split("\n")
        if last.startswith(SERVERS):
            return self._serve("\n".join([*before, f"exec {self._with_port(last)}"]))
        # Where the page shows the status, an error status is no failure.
        quietly = "curl -s " if "%{http_code}" in command else "curl -sf "
        script = "set -e\n" + self._with_port(command.replace("curl ", quietly))
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.home, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}\n{done.stdout}"
        self._move_port()
        return done.stdout

    def _compare(self, shown: str) -> None:
        for command, expected in session(shown):
            printed = self._as_usual(self.paste(command)).replace(str(self.home), "/home/you")
            assert not expected or matches(expected, printed), f"{command}\nshown:\n{expected}\nprinted:\n{printed}"

    def _serve(self, command: str) -> str:
        port_option = LISTENS.search(command)
        is_hotseat = "hotseat serve" in command
        listening = port_option or any("listen:" in file.read_text() for file in self.home.glob("*.yaml"))
        more = f" --listen 127.0.0.1:{self.port}" if is_hotseat and not listening else ""
        pipe = subprocess.PIPE
        server = subprocess.Popen(
            ["bash", "-c", command + more],
            cwd=self.home,
            env=self._environment,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._servers.append(server)
        if is_hotseat:
            port = int(port_option[1]) if port_option else self.port
            eventually(lambda: is_healthy(port), within=START_S)
        return ""

    def _with_port(self, text: str) -> str:
        for usual, port in self.ports.items():
            text = re.sub(rf":{usual}\b", f":{port}", text)
        return text

    def _as_usual(self, text: str) -> str:
        for usual, port in self.ports.items():
            text = text.replace(f":{port}", f":{usual}")
        return text

    def _move_port(self) -> None:
        """The machine may have another server on the default port."""
        for file in self.home.glob("*.yaml"):
            file.write_text(self._with_port(file.read_text()))

    def leave(self) -> None:
        for server in reversed(self._servers):
            server.terminate()
            print(server.communicate(timeout=PATIENCE_S)[0])
        assert [server.returncode for server in self._servers] == [0] * len(self._servers)


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S):
            return True
    except OSError:
        return False


def session(shown: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block and its expected output."""
    for part in re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        ends = next(number for number, line in enumerate(lines) if not line.endswith("\\\n"))
        yield "".join(lines[: ends + 1]), "".join(lines[ends + 1 :])


def matches(shown: str, printed: str) -> bool:
    """Compare line by line; … matches any part of a line, and alone any lines. Column widths do not matter."""
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "…" else _line_pattern(line) for line in shown.rstrip("\n").splitlines()
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def _line_pattern(line: str) -> str:
    words = [re.escape(word).replace("…", ".*") for word in line.split()]
    return r"\s*" + r"\s+".join(words) + r"[ \t]*\n"
