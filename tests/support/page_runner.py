"""Follows a documentation page: runs its commands, writes its files, and compares the output with what is shown.

`page_blocks` says which blocks there are.
`<!-- models: small large -->` puts small.gguf and large.gguf into the reader's ~/models. Only ports and the number of
words differ from what a person would see.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from itertools import cycle
from typing import TYPE_CHECKING

from tests.support.client import PATIENCE_S
from tests.support.hotseat import PROGRAM, START_S
from tests.support.llama import SERVER, model_file, present
from tests.support.page_blocks import Block, blocks_of, matches, session
from tests.support.ports import free_port
from tests.support.terminal_session import Session
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = ("hotseat serve", "nats-server")
USUAL_PORTS = (8080, 8081, 8082, 8443, 4222, 4223, 4224, 6222, 6223, 6224, 8222, 8223, 8224)
LISTENS = re.compile(r"--listen \S+:(\d+)")
MODELS = re.compile(r"^<!-- models: (.+) -->$", re.MULTILINE)


class Reader:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = {usual: free_port() for usual in USUAL_PORTS}
        self.port = self.ports[8080]
        path = os.pathsep.join([str(PROGRAM.parent), str(present(SERVER).parent), os.environ["PATH"]])
        said = {"HOME": str(home), "PATH": path, "HOTSEAT_URL": f"http://127.0.0.1:{self.port}", "NO_COLOR": "1"}
        few = {"LLAMA_ARG_THREADS": "1", "LLAMA_ARG_N_PREDICT": "8"}
        self._session = Session(home, {**os.environ, **said, **few})
        self._servers: list[subprocess.Popen[str]] = []

    def follow(self, page: str) -> None:
        for names in MODELS.findall(page):
            self.put_models(names.split())
        for block in blocks_of(page):
            self._do(block)
        if not self._servers:  # then all that runs was started in the background, and the page must stop it
            eventually(lambda: not self._session.processes())

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
            self._compare(block.text, is_repeated=block.mark == "repeat")

    def _write(self, name: str, text: str) -> None:
        target = self._session.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._with_port(text))

    def paste(self, command: str) -> str:
        """Run it and return its output; servers keep running."""
        *before, last = command.strip().split("\n")
        if last.startswith(SERVERS):
            return self._serve("\n".join([*before, f"exec {self._with_port(last)}"]))
        done = self._run(command)
        assert done.returncode == 0, f"{command}\n{done.stderr}\n{done.stdout}\n{self._logs()}"
        self._move_port()
        return done.stdout

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        # Where the page shows the status, an error status is no failure.
        quietly = "curl -s " if "%{http_code}" in command else "curl -sf "
        return self._session.run(self._with_port(command.replace("curl ", quietly)))

    def _compare(self, shown: str, *, is_repeated: bool) -> None:
        for command, expected in session(shown):
            printed = self._printed_in_time(command, expected) if is_repeated else self._as_usual(self.paste(command))
            difference = f"{command}\nshown:\n{expected}\nprinted:\n{printed}\n{self._logs()}"
            assert not expected or matches(expected, printed), difference

    def _printed_in_time(self, command: str, expected: str) -> str:
        """What the command prints as soon as that is expected, or at last."""
        until = time.monotonic() + PATIENCE_S
        while not matches(expected, printed := self._printed(command)) and time.monotonic() < until:
            pass
        return printed

    def _printed(self, command: str) -> str:
        """Also why it failed, if it did."""
        done = self._run(command)
        return self._as_usual(done.stdout if done.returncode == 0 else done.stdout + done.stderr)

    def _serve(self, command: str) -> str:
        port_option = LISTENS.search(command)
        is_hotseat = "hotseat serve" in command
        listening = port_option or any("listen:" in file.read_text() for file in self.home.glob("*.yaml"))
        more = f" --listen 127.0.0.1:{self.port}" if is_hotseat and not listening else ""
        pipe = subprocess.PIPE
        server = subprocess.Popen(
            ["bash", "-c", command + more],
            cwd=self._session.folder,
            env=self._session.environ,
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
        return text.replace(str(self.home), "/home/you")

    def _move_port(self) -> None:
        """The machine may have another server on the default port."""
        for file in self.home.glob("*.yaml"):
            file.write_text(self._with_port(file.read_text()))

    def _logs(self) -> str:
        """Of programs in the background."""
        return "\n".join(f"{file}:\n{file.read_text()}" for file in sorted(self._session.folder.glob("*/*.log")))

    def leave(self) -> None:
        """Stop the servers that are still running in terminals of their own, as a person would."""
        try:
            for server in reversed(self._servers):
                server.terminate()
                print(server.communicate(timeout=PATIENCE_S)[0])
            assert [server.returncode for server in self._servers] == [0] * len(self._servers)
        finally:
            self._session.end_all()


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S):
            return True
    except OSError:
        return False
