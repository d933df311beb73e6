"""Models take turns while clients ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_two_models_take_turns_under_traffic(rig: Hotseat) -> None:
    """Clients of two models each get their own model's answers, and the two never run side by side."""
    expected = {name: rig.chat(name).text() for name in ("alpha", "beta")}
    names = ["alpha", "beta"] * 8
    most = 0
    with ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(rig.chat, name) for name in names]
        while wait(answers, timeout=0.02).not_done:
            most = max(most, len(rig.upstreams()))

    assert expected["alpha"] != expected["beta"]
    assert [answer.result().text() for answer in answers] == [expected[name] for name in names]
    assert most == 1


def test_a_swap_waits_for_a_stream(rig: Hotseat) -> None:
    """A stream that has begun is never cut by a request for another model."""
    stream = rig.stream("alpha", max_tokens=500).until_it_speaks()
    with ThreadPoolExecutor(1) as other:
        swapped = other.submit(rig.chat, "beta")
        stream.read()

        assert (len(stream.words), stream.done) == (500, True)
        assert swapped.result().status == 200
    assert rig.running() == ["beta"]


def test_load_and_unload(rig: Hotseat) -> None:
    """A load answers when the model is ready, an unload when its process is gone."""
    loaded = rig.call("GET", "/upstream/alpha/load")
    pids = rig.upstreams()
    stopped = rig.call("DELETE", "/upstream/alpha")
    again = rig.call("DELETE", "/upstream/alpha")

    assert (loaded.status, loaded.json()["status"]) == (200, "ok")
    assert len(pids) == 1
    assert (stopped.status, stopped.json()["status"]) == (200, "ok")
    assert rig.upstreams() == []
    assert (again.status, again.json()["status"]) == (409, "error")


def test_a_client_that_hangs_up_frees_its_slot(rig: Hotseat) -> None:
    """The model server stops speaking when nobody listens any more."""
    stream = rig.stream("alpha", max_tokens=4000).until_it_speaks()
    busy = [slot["is_processing"] for slot in rig.call("GET", "/slots").json()]
    stream.leave()

    assert any(busy)
    assert eventually(lambda: not any(slot["is_processing"] for slot in rig.call("GET", "/slots").json()))
