"""Open WebUI: the requests of its page, sent without a browser."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from clients.applications.scripted_model import RESULT
from clients.applications.workspace import PATIENCE_S, Shown
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clients.applications.workspace import Workspace

TOOL = '''\
class Tools:
    def read_word(self) -> str:
        """Read the word."""
        return open("word.txt").read()
'''
LATEST = ":latest"
"""Names have it in a list from Ollama's API."""
QUIET = {"OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "false", "DO_NOT_TRACK": "true"}
WITHOUT_TORCH = {"RAG_EMBEDDING_ENGINE": "openai"}
"""Its own embeddings would need it."""


def openai_connection(workspace: Workspace) -> dict[str, str]:
    address = {"OPENAI_API_BASE_URL": f"{workspace.url}/v1", "OPENAI_API_KEY": "none"}
    provider = {"OPENAI_API_CONFIGS": json.dumps({"0": {"provider": "llama.cpp"}})}
    return {"ENABLE_OLLAMA_API": "false", **address, **provider}


def ollama_connection(workspace: Workspace) -> dict[str, str]:
    return {"ENABLE_OPENAI_API": "false", "OLLAMA_BASE_URL": workspace.url}


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a user who has signed in."""

    workspace: Workspace
    url: str
    token: str = ""

    def call(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)

    def answers(self) -> bool:
        try:
            return bool(self.call("GET", "/health")["status"])
        except OSError:
            return False

    def ask(self, model: str, question: str, **more: object) -> Shown:
        try:
            answer = self._answer(self._listed(model), question, **more)
        except HTTPError as refusal:
            return Shown("", refusal.read().decode())
        return Shown(answer, answer)

    def use_tool(self, model: str) -> str:
        tool = {"id": "word", "name": "word", "meta": {"description": "Reads the word."}, "content": TOOL}
        self.call("POST", "/api/v1/tools/create", tool)
        return self.ask(model, "[[call read_word]]", tool_ids=["word"]).answer.partition(RESULT)[2]

    def loaded(self) -> list[str]:
        """Those with a mark in the list of models."""
        return [model["id"].removesuffix(LATEST) for model in self._models() if model.get("loaded")]

    def unload(self, model: str) -> None:
        """The button beside the mark, which administrators have."""
        self.call("POST", "/api/models/unload", {"model": self._listed(model)})

    def load(self, model: str) -> None:
        """The button in the settings of the first OpenAI connection."""
        self.call("POST", "/openai/models/0/load", {"model": model})

    def _models(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/api/models")["data"])

    def _listed(self, model: str) -> str:
        """The name in the list, which the page reads first: the server knows only the models of the newest list."""
        names = [entry["id"] for entry in self._models()]
        return next((name for name in names if name.removesuffix(LATEST) == model), model)

    def _answer(self, model: str, question: str, **more: object) -> str:
        """The chat is stored when its answer is whole."""
        said = {"id": "question", "role": "user", "content": question, "parentId": None, "childrenIds": ["answer"]}
        ids = {"session_id": "session", "id": "answer", "parent_id": None, "user_message": {**said, "models": [model]}}
        messages = [{"role": "user", "content": question}]
        asked = {"model": model, "messages": messages, "stream": True, **ids, **more}
        chat = self.call("POST", "/api/chat/completions", asked)["chat_id"]
        return str(eventually(lambda: self._stored(chat), within=PATIENCE_S)["content"])

    def _stored(self, chat: str) -> dict[str, Any]:
        messages = self.call("GET", f"/api/v1/chats/{chat}")["chat"]["history"]["messages"]
        answer: dict[str, Any] = messages.get("answer", {})
        return answer if answer.get("done") or answer.get("error") else {}


@contextmanager
def open_page(workspace: Workspace, program: str, connection: Mapping[str, str]) -> Iterator[Page]:
    """Start the server with this connection and sign up its first user, who becomes its administrator."""
    port = free_port()
    data = {"DATA_DIR": str(workspace.home / "data"), "WEBUI_SECRET_KEY": "secret"}
    environ = workspace.environment({**data, **QUIET, **WITHOUT_TORCH, **connection})
    (workspace.home / "data").mkdir()
    argv = [program, "serve", "--host", "127.0.0.1", "--port", str(port)]
    with (
        (workspace.home / "log").open("wb") as log,
        subprocess.Popen(argv, cwd=workspace.project, env=environ, stdout=log, stderr=log) as server,
    ):
        try:
            page = Page(workspace, f"http://127.0.0.1:{port}")
            eventually(page.answers, within=PATIENCE_S)
            person = {"name": "a", "email": "a@example.com", "password": "a-long-password"}
            yield Page(workspace, page.url, page.call("POST", "/api/v1/auths/signup", person)["token"])
        finally:
            server.kill()
