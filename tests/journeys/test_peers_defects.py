"""Defects that were measured in another proxy of this kind, each as a journey that must go well here."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.hotseat import Hotseat

TOGETHER = {"groups": {"all": {"swap": False, "members": ["a", "b"]}}}


@contextmanager
def used_by_three(rig: Hotseat, model: str) -> Iterator[None]:
    """Three clients whose requests overlap, so that the model is never unused."""
    over = threading.Event()

    def use() -> None:
        while not over.is_set():
            rig.chat(model, max_tokens=5)

    with ThreadPoolExecutor(3) as clients:
        for _ in range(3):
            clients.submit(use)
        try:
            yield
        finally:
            over.set()


def phase_of(rig: Hotseat, model: str) -> str:
    return str(rig.call("GET", f"/hotseat/models/{model}").json()["phase"])


def test_starvation(serve: Callable[..., Hotseat]) -> None:
    """Defect: a model waits as long as the resident one is in use. Here its turn comes while that goes on."""
    rig = serve({"a": stub("a", "--token-delay 0.1"), "b": stub("b")})
    rig.load("a")
    with used_by_three(rig, "a"):
        eventually(lambda: int(rig.call("GET", "/hotseat/models/a").json()["in_flight"]) == 3)
        answer = rig.chat("b")

    assert answer.status == 200


def test_a_hung_health_check(serve: Callable[..., Hotseat]) -> None:
    """Defect: a health check that never answers outlasts its time limit. Here the limit is kept and reported."""
    rig = serve({"a": stub("a", "--hang-health")}, healthCheckTimeout=1)
    answer = rig.chat("a")

    assert answer.status == 503
    assert "health check timed out after 1 seconds" in answer.json()["error"]


def test_an_unload_that_blocks(serve: Callable[..., Hotseat]) -> None:
    """Defect: while one model stops, another one does not answer. Here it does not notice."""
    rig = serve({"a": stub("a", "--stop-seconds 600", unloadTimeout=600), "b": stub("b")}, **TOGETHER)
    pid = rig.load("a")
    rig.load("b")
    with ThreadPoolExecutor(1) as operator:
        unloading = operator.submit(rig.call, "DELETE", "/upstream/a")
        eventually(lambda: phase_of(rig, "a") == "unloading")
        answer = rig.chat("b")
        still = phase_of(rig, "a")
        os.kill(pid, signal.SIGKILL)

    assert (answer.status, still) == (200, "unloading")
    assert unloading.result().status == 200


def test_an_unload_that_cuts(serve: Callable[..., Hotseat]) -> None:
    """Defect: an unload cuts the streams of its model. Here they finish first."""
    rig = serve({"a": stub("a", "--token-delay 0.02")})
    stream = rig.stream("a", max_tokens=50).until_it_speaks()
    with ThreadPoolExecutor(1) as operator:
        unloading = operator.submit(rig.call, "DELETE", "/upstream/a")
        stream.read()

    assert (len(stream.words), stream.done) == (50, True)
    assert unloading.result().status == 200
    assert rig.running() == []


def test_a_reload_that_cuts_or_serves_from_the_old_process(serve: Callable[..., Hotseat]) -> None:
    """Defect: a reload cuts streams, and the old process answers for the new one. Here neither happens."""
    rig = serve({"a": stub("a", "--token-delay 0.02")})
    stream = rig.stream("a", max_tokens=50).until_it_speaks()
    before = rig.health()["a"]["pid"]
    rig.write({"models": {"a": stub("a", "--slots 2")}})
    reloaded = rig.call("POST", "/hotseat/reload")
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(rig.chat, "a")
        stream.read()

    assert reloaded.json()["changed"] == ["a"]
    assert (len(stream.words), stream.done) == (50, True)
    assert answer.result().status == 200
    assert rig.health()["a"]["pid"] != before


def test_an_orphan_after_sigterm_during_a_reload(serve: Callable[..., Hotseat]) -> None:
    """Defect: SIGTERM amid a reload leaves a server behind. Here nothing is left."""
    rig = serve({"a": stub("a", "--stop-seconds 1")})
    rig.load("a")
    rig.write({"models": {"a": stub("a", "--slots 2")}})
    rig.call("POST", "/hotseat/reload")

    assert rig.terminate() == 0
    assert rig.processes() == []


def test_a_ttl_that_runs_from_the_beginning_of_time(serve: Callable[..., Hotseat]) -> None:
    """Defect: whose client left during the load is unloaded as it becomes ready. Here its ttl begins then."""
    rig = serve({"a": stub("a", "--load-seconds 1", ttl=600)})
    impatient = http.client.HTTPConnection("127.0.0.1", rig.port)
    impatient.request("GET", "/upstream/a/load")
    eventually(lambda: phase_of(rig, "a") == "loading")
    impatient.close()
    eventually(lambda: phase_of(rig, "a") == "ready")

    assert 550 < rig.call("GET", "/hotseat/models/a").json()["ttl_left_s"] <= 600


def test_a_clean_end_after_a_crash(serve: Callable[..., Hotseat]) -> None:
    """Defect: a server dies amid its stream, and the client sees a proper end. Here the end is missing."""
    rig = serve({"a": stub("a", "--die-mid-stream --token-delay 0.01")})
    stream = rig.stream("a", max_tokens=20)
    with pytest.raises(http.client.IncompleteRead) as broken:
        stream.response.read()
    stream.leave()

    assert b"[DONE]" not in broken.value.partial
    assert b'"error"' in broken.value.partial


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_a_foreign_web_page(serve: Callable[..., Hotseat], headers: dict[str, str]) -> None:
    """Defect: any web page can unload models through its visitor's browser. Here it is refused, without effect."""
    rig = serve({"a": stub("a")})
    pid = rig.load("a")
    answer = rig.call("DELETE", "/upstream/a", **headers)

    assert answer.status == 403
    assert rig.health()["a"]["pid"] == pid
