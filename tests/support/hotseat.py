"""Runs the installed `hotseat` command as a process."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import yaml
from tests.support.client import PATIENCE_S, Answer, Stream, chat_body, send
from tests.support.ports import free_port
from tests.support.processes import all_pids, command_line, environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = Path(sys.executable).with_name("hotseat")
START_S = 90.0
"""Starting takes a second; with more work than processors it took more than 30."""
MARK = "HOTSEAT_TEST_RUN"
"""An environment variable that every process of one run inherits, so that all of them can be found."""


class Process(Protocol):
    """What is used of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | Any: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Hotseat:
    """A running `hotseat serve`; leaving the block stops it and fails if any process of it is left."""

    def __init__(
        self,
        config: Mapping[str, Any] | Path,
        folder: Path,
        host: str = "127.0.0.1",
        program: Sequence[str] = (str(PROGRAM),),
        environ: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
        port: int | None = None,
        output: int | None = None,
    ) -> None:
        """`output` receives stdout and stderr; `log` reads them if it is None."""
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = config if isinstance(config, Path) else folder / "config.yaml"
        if not isinstance(config, Path):
            self.write(config)
        self._log = folder / "hotseat.log"
        ours = {MARK: str(folder), "XDG_STATE_HOME": str(folder / "state")}
        self._environment = {**os.environ, **(environ or {}), **ours}
        self._mark = f"{MARK}={folder}".encode()
        argv = [*map(str, program), "serve", "--config", str(self.config), "--listen", f"{host}:{self.port}", *options]
        with self._log.open("wb") as log:
            self.process = self._start(argv, log.fileno() if output is None else output)

    def __enter__(self) -> Self:
        try:
            eventually(self._answers, within=START_S)
        except BaseException as problem:
            problem.add_note(self.log())
            self._kill_all()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        try:
            self.terminate()
            eventually(lambda: not self.processes())
        finally:
            self._kill_all()

    # The process

    def _start(self, argv: Sequence[str], output: int) -> Process:
        return subprocess.Popen(argv, stdout=output, stderr=output, env=self._environment)

    def write(self, config: Mapping[str, Any]) -> None:
        self.config.write_text(yaml.safe_dump(dict(config), sort_keys=False, width=10_000))

    def terminate(self) -> int:
        """Stop it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def processes(self, name: str = "") -> list[int]:
        """Every process of this run whose command line contains `name`, whatever its parent is now."""
        return [pid for pid in all_pids() if self._mark in environment(pid) and name in command_line(pid)]

    def upstreams(self) -> list[int]:
        return self.processes("llama-server -m")

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def cli(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the installed program against this server."""
        environment = {**self._environment, "HOTSEAT_URL": self.url, "NO_COLOR": "1", "COLUMNS": "160", **environ}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=START_S, env=environment)

    # The client

    def call(self, method: str, path: str, body: object = None, *, at: str = "127.0.0.1", **headers: str) -> Answer:
        connection = http.client.HTTPConnection(at, self.port, timeout=PATIENCE_S)
        try:
            response = send(connection, method, path, body, headers)
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def chat(self, model: str, max_tokens: int = 4, **headers: str) -> Answer:
        return self.call("POST", "/v1/chat/completions", chat_body(model, max_tokens), **headers)

    def stream(self, model: str, max_tokens: int, **headers: str) -> Stream:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        body = chat_body(model, max_tokens, stream=True)
        return Stream(send(connection, "POST", "/v1/chat/completions", body, headers), connection)

    def load(self, model: str) -> int:
        """Load a model and return its pid."""
        answer = self.call("GET", f"/upstream/{model}/load")
        assert answer.status == 200, answer
        return int(self.health()[model]["pid"])

    def health(self) -> dict[str, Any]:
        return dict(self.call("GET", "/health").json()["models"])

    def running(self) -> list[str]:
        return list(self.call("GET", "/running").json()["running"])

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"hotseat serve ended with {self.process.returncode}:\n{self.log()}")
        try:
            return self.call("GET", "/health").status == 200
        except OSError:
            return False

    def _kill_all(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
