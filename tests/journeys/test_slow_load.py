"""A model that takes seconds to load: 1.6 GB, made by `just llama --big`. On demand only (`just deep`)."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

import pytest
from tests.support.client import chat_body
from tests.support.llama import llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = [pytest.mark.llama, pytest.mark.big]


def test_a_client_that_hangs_up_during_a_slow_load(serve: Callable[..., Hotseat]) -> None:
    """Who hangs up leaves the line at once, and the next client of another model does not wait for that load."""
    rig = serve({"big": llama("big"), "alpha": llama("alpha")})
    impatient = http.client.HTTPConnection("127.0.0.1", rig.port)
    body = json.dumps(chat_body("big", 1))
    impatient.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    eventually(lambda: phase_of(rig, "big") == "loading")
    waited_before = len(waiting(rig))
    impatient.close()
    eventually(lambda: not waiting(rig), within=1)
    answer = rig.chat("alpha")

    assert waited_before == 1
    assert answer.status == 200
    assert rig.running() == ["alpha"]


def test_a_slow_load_is_waited_for(serve: Callable[..., Hotseat]) -> None:
    """A request is held while its model loads, and then answered."""
    rig = serve({"big": llama("big")})

    assert rig.chat("big", max_tokens=1).status == 200


def phase_of(rig: Hotseat, model: str) -> str:
    return str(rig.call("GET", f"/hotseat/models/{model}").json()["phase"])


def waiting(rig: Hotseat) -> list[object]:
    return list(rig.call("GET", "/hotseat/queue").json()["waiting"])
