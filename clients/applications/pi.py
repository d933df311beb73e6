"""pi with the extension pi-llama-cpp: the commands of its user, sent through its RPC mode."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import IO, TYPE_CHECKING, Any

from clients.applications.command_lines import READ
from clients.applications.scripted_model import RESULT
from clients.applications.workspace import PATIENCE_S, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clients.applications.workspace import Workspace

LOADED = "🟢"
"""The mark of a loaded model in the extension's list."""


@dataclass(frozen=True, slots=True)
class Pi:
    workspace: Workspace
    stdin: IO[str]
    stdout: IO[str]

    def ask(self, model: str, question: str) -> Shown:
        """In a new session. The extension loads a model when it is selected."""
        self._call("new_session")
        selected = self._call("set_model", provider=f"llama-server={self.workspace.url}", modelId=model)
        if not selected["success"]:
            return Shown("", selected["error"])
        self._call("prompt", message=question)
        self._next(type="agent_end")
        answer = self._call("get_last_assistant_text")["data"]["text"] or ""
        return Shown(answer, answer)

    def use_tool(self, model: str) -> str:
        return self.ask(model, f"[[call bash command={READ}]]").answer.partition(RESULT)[2]

    def loaded(self) -> list[str]:
        dialog = self._dialog()
        self._choose(dialog)
        return [words[1] for words in map(str.split, dialog["options"]) if words[0] == LOADED]

    def load(self, model: str) -> None:
        self._manage(model, "Load only")

    def unload(self, model: str) -> None:
        self._manage(model, "Unload")

    def _manage(self, model: str, action: str) -> None:
        dialog = self._dialog()
        self._choose(dialog, next(option for option in dialog["options"] if option.split()[1] == model))
        self._choose(self._next(method="select"), action)
        self._next(type="response", command="prompt")

    def _dialog(self) -> dict[str, Any]:
        """The extension's models with their states."""
        self._send(type="prompt", message="/models")
        return self._next(method="select")

    def _choose(self, dialog: dict[str, Any], option: str | None = None) -> None:
        choice = {"cancelled": True} if option is None else {"value": option}
        self._send(type="extension_ui_response", id=dialog["id"], **choice)
        if option is None:
            self._next(type="response", command="prompt")

    def _call(self, command: str, **fields: str) -> dict[str, Any]:
        self._send(type=command, **fields)
        return self._next(type="response", command=command)

    def _send(self, **fields: object) -> None:
        self.stdin.write(json.dumps(fields) + "\n")
        self.stdin.flush()

    def _next(self, **fields: str) -> dict[str, Any]:
        """The next message with these fields."""
        for line in self.stdout:
            message: dict[str, Any] = json.loads(line)
            if fields.items() <= message.items():
                return message
        raise AssertionError(f"pi ended before it sent {fields}")


@contextmanager
def open_pi(workspace: Workspace, modules: Path) -> Iterator[Pi]:
    program = [str(modules / ".bin/node"), str(modules / ".bin/pi")]
    argv = [*program, "--mode", "rpc", "--no-session", "-e", str(modules / "pi-llama-cpp")]
    environ = workspace.environment({"LLAMA_SERVER_URL": workspace.url, "PI_OFFLINE": "1"})
    with (
        (workspace.home / "log").open("w") as log,
        subprocess.Popen(
            argv,
            cwd=workspace.project,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        end = Timer(PATIENCE_S, process.kill)
        end.start()
        try:
            assert process.stdin
            assert process.stdout
            yield Pi(workspace, process.stdin, process.stdout)
        finally:
            end.cancel()
            process.kill()
