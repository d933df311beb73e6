"""hotseat beside the router of a real llama-server: a client that manages models sees the same."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.support.llama import MODELS, SERVER, present
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

ONLY_THERE = (
    "alpha.context_length",  # hotseat knows it when the model has run
    *(f"loaded alpha.meta.{name}" for name in ("vocab_type", "n_vocab", "n_ctx_train", "n_embd", "n_params", "size")),
    "loaded alpha.meta.ftype",
    "loaded.info.meta",
    "loaded.info.context_length",
)
"""What the router tells and hotseat does not."""


@dataclass
class Observed:
    """What a client that manages models gets."""

    statuses: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    """The types of errors."""
    events: list[tuple[str, str]] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)

    def refused(self, answer: httpx2.Response) -> None:
        self.statuses.append(answer.status_code)
        self.kinds.append(answer.json()["error"]["type"])

    def allowed(self, answer: httpx2.Response) -> None:
        self.statuses.append(answer.status_code)
        assert answer.json() == {"success": True}


@contextmanager
def real_router(folder: Path) -> Iterator[str]:
    """A llama-server that serves the tiny models as a router; yields its address."""
    port = free_port()
    options = f"--port {port} -c 512 -t 1 -tb 1"
    argv = [str(present(SERVER)), "--models-dir", str(present(MODELS)), *options.split()]
    environ = {**os.environ, "HOME": str(folder), "LLAMA_CACHE": str(folder / "cache")}
    with (folder / "router.log").open("wb") as log, subprocess.Popen(argv, env=environ, stdout=log, stderr=log) as it:
        try:
            eventually(lambda: is_up(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            it.terminate()


def is_up(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx2.HTTPError:
        return False


def manage(url: str) -> Observed:
    """What Open WebUI and pi-llama-cpp do: look, load, wait for the feed, look again, unload; and some mistakes."""
    observed = Observed()
    # The router closes idle connections at any moment, which a client that reuses them cannot foresee.
    limits = httpx2.Limits(max_keepalive_connections=0)
    with httpx2.Client(base_url=url, timeout=60, limits=limits) as client, client.stream("GET", "/models/sse") as feed:
        lines = feed.iter_lines()
        observed.bodies["alpha"] = entry(client)
        observed.bodies["props"] = client.get("/props?autoload=false").json()
        observed.refused(client.get("/props?model=alpha&autoload=false"))
        observed.refused(client.post("/models/unload", json={"model": "alpha"}))
        observed.allowed(client.post("/models/load", json={"model": "alpha"}))
        observed.refused(client.post("/models/load", json={"model": "alpha"}))
        observed.bodies["loaded"] = until(lines, "loaded", observed)
        eventually(lambda: "meta" in entry(client))  # hotseat asks the server for it when it is ready
        observed.bodies["loaded alpha"] = entry(client)
        observed.bodies["props of alpha"] = client.get("/props?model=alpha&autoload=false").json()
        observed.allowed(client.post("/models/unload", json={"model": "alpha"}))
        observed.bodies["unloaded"] = until(lines, "unloaded", observed)
        observed.refused(client.post("/models/load", json={"model": "nobody"}))
        observed.refused(client.post("/models/unload", json={"model": "nobody"}))
        observed.refused(client.post("/models/unload", content=b"not json"))
        observed.refused(client.get("/props?model=nobody&autoload=false"))
    return observed


def entry(client: httpx2.Client) -> dict[str, Any]:
    listed: list[dict[str, Any]] = client.get("/models").json()["data"]
    return next(model for model in listed if model["id"] == "alpha")


def until(lines: Iterator[str], status: str, observed: Observed) -> dict[str, Any]:
    """The data of the event with this status; notes all events except for progress, which depends on the machine."""
    for line in lines:
        if line.startswith("data:"):
            event = json.loads(line.removeprefix("data:"))
            data: dict[str, Any] = event["data"]
            if "progress" not in data:
                observed.events.append((event["event"], data["status"]))
            if data["status"] == status:
                return data
    raise AssertionError(f"the feed ended before {status}")


def differences(there: Any, here: Any, at: str) -> Iterator[str]:
    """Fields that are missing here, or of another type."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name, value in there.items():
            if name in here:
                yield from differences(value, here[name], f"{at}.{name}")
            else:
                yield f"{at}.{name}"
    elif type(there) is not type(here):
        yield f"{at}: {type(there).__name__} there, {type(here).__name__} here"


def test_a_client_that_manages_models_sees_the_same(rig: Hotseat, tmp_path: Path) -> None:
    """Statuses, types of errors, events and fields are those of llama.cpp's router, with the listed exceptions."""
    with real_router(tmp_path) as url:
        there = manage(url)
    here = manage(rig.url)

    assert here.statuses == there.statuses
    assert here.kinds == there.kinds
    assert here.events == there.events
    found = [what for name, body in there.bodies.items() for what in differences(body, here.bodies[name], name)]
    assert [what for what in found if what not in ONLY_THERE] == []
    assert here.bodies["alpha"]["status"]["value"] == there.bodies["alpha"]["status"]["value"] == "unloaded"
    assert here.bodies["props"]["role"] == there.bodies["props"]["role"] == "router"


def test_a_load_leaves_the_model_to_its_next_user(rig: Hotseat) -> None:
    """A model that was loaded through the router's API answers at once, and an unload lets its stream finish."""
    rig.call("POST", "/models/load", {"model": "alpha"})
    eventually(lambda: rig.running() == ["alpha"])
    stream = rig.stream("alpha", max_tokens=200).until_it_speaks()
    unloaded = rig.call("POST", "/models/unload", {"model": "alpha"})
    stream.read()

    assert unloaded.status == 200
    assert (len(stream.words), stream.done) == (200, True)
    eventually(lambda: not rig.upstreams())


def test_a_swap_is_shown_step_by_step(rig: Hotseat) -> None:
    """llama-swap's feed shows how one model stops and another starts."""
    with httpx2.Client(base_url=rig.url, timeout=60) as client, client.stream("GET", "/api/events") as feed:
        messages = (json.loads(line[5:]) for line in feed.iter_lines() if line.startswith("data:"))
        rig.chat("alpha")
        rig.chat("beta")
        seen: list[tuple[str, str]] = []
        for message in messages:
            if message["type"] == "modelStatus":
                states = {model["id"]: model["state"] for model in json.loads(message["data"])}
                seen.append((states["alpha"], states["beta"]))
            if seen and seen[-1] == ("stopped", "ready"):
                break

    assert seen[0] == ("stopped", "stopped")
    assert ("ready", "stopped") in seen
    assert ("stopped", "starting") in seen
