"""A tool that knows only Ollama manages the models of a real hotseat at Ollama's address."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.client import PATIENCE_S, Answer, send
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama, model_file
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.llama


class Ollama:
    """The second listener of a hotseat."""

    def __init__(self, hotseat: ForkedHotseat, port: int) -> None:
        self.hotseat = hotseat
        self._port = port

    def call(self, method: str, path: str, body: object = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            response = send(connection, method, path, body, {})
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def running(self) -> list[str]:
        return [model["name"] for model in self.call("GET", "/api/ps").json()["models"]]


@pytest.fixture(scope="module")
def ollama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ollama]:
    port = free_port()
    config: dict[str, Any] = {
        "ollama": {"listen": port},
        "models": {"alpha": llama("alpha"), "beta": llama("beta", ttl=300)},
    }
    with ForkedHotseat(config, tmp_path_factory.mktemp("hotseat")) as hotseat:
        yield Ollama(hotseat, port)


def test_it_finds_ollama_there(ollama: Ollama) -> None:
    """The bare address says so, with HEAD too; hotseat's own address does not."""
    assert ollama.call("GET", "/").body == b"Ollama is running"
    assert ollama.call("HEAD", "/").status == 200
    assert b"Ollama" not in ollama.hotseat.call("GET", "/").body


def test_it_lists_and_describes_models(ollama: Ollama) -> None:
    """The same at both addresses, with what the files say."""
    tags = ollama.call("GET", "/api/tags").json()
    shown = ollama.call("POST", "/api/show", {"model": "alpha:latest"}).json()
    [alpha, _] = tags["models"]

    assert tags == ollama.hotseat.call("GET", "/api/tags").json()
    assert [model["name"] for model in tags["models"]] == ["alpha:latest", "beta:latest"]
    assert alpha["size"] == model_file("alpha").stat().st_size
    assert alpha["details"]["format"] == "gguf"
    assert shown["details"] == alpha["details"]
    assert shown["model_info"]["general.architecture"] == alpha["details"]["family"]
    assert "completion" in shown["capabilities"]


def running(ollama: Ollama) -> list[dict[str, Any]]:
    return list(ollama.call("GET", "/api/ps").json()["models"])


def test_it_loads_keeps_and_unloads_a_model(ollama: Ollama) -> None:
    """A load ends when the model is ready, keep_alive is shown, and 0 unloads the idle model."""
    loaded = ollama.call("POST", "/api/generate", {"model": "alpha", "keep_alive": "1h"})
    [seen] = eventually(lambda: [model for model in running(ollama) if model["context_length"]])
    why = ollama.hotseat.call("GET", "/hotseat/models/alpha").json()
    unloaded = ollama.call("POST", "/api/generate", {"model": "alpha", "keep_alive": 0})

    assert (loaded.status, loaded.json()["done_reason"]) == (200, "load")
    assert (seen["name"], seen["context_length"]) == ("alpha:latest", 8192)
    assert why["why"].endswith("a client wanted to keep it for 3600 s without requests (keep_alive)")
    assert 3500 < why["ttl_left_s"] <= 3600
    assert unloaded.json()["done_reason"] == "unload"
    eventually(lambda: not ollama.hotseat.upstreams())
    assert ollama.running() == []


def test_a_model_in_use_is_unloaded_after_its_request(ollama: Ollama) -> None:
    """keep_alive 0 with a request unloads the model as soon as it is answered, which is not cut."""
    question = {"model": "beta", "messages": [{"role": "user", "content": "hello"}], "keep_alive": 0}
    answer = ollama.call("POST", "/api/chat", {**question, "stream": False, "options": {"num_predict": 4}})

    assert (answer.status, answer.json()["done"]) == (200, True)
    eventually(lambda: not ollama.hotseat.upstreams())
    stopped = ollama.hotseat.call("GET", "/hotseat/models/beta").json()["last_stop"]
    assert stopped["reason"] == "a client wanted it unloaded as soon as it is idle (keep_alive)"


def test_it_cannot_change_models(ollama: Ollama) -> None:
    """The error says what to do in a terminal instead."""
    refused = ollama.call("POST", "/api/pull", {"model": "qwen3"})

    assert refused.status == 501
    assert "hotseat pull ORG/REPO" in refused.json()["error"]
