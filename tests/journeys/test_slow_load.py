"""A model that takes seconds to load: 1.6 GB, made by `just llama --big`. On demand only (`just deep`)."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

import pytest
from tests.support.client import chat_body, eventually
from tests.support.llama import llama

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = [pytest.mark.llama, pytest.mark.big]


def test_a_client_that_hangs_up_during_a_slow_load(serve: Callable[..., Hotseat]) -> None:
    """Who hangs up leaves the line at once, and the next client of another model does not wait for that load."""
    house = serve({"big": llama("big"), "alpha": llama("alpha")})
    impatient = http.client.HTTPConnection("127.0.0.1", house.port)
    body = json.dumps(chat_body("big", 1))
    impatient.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    eventually(lambda: phase_of(house, "big") == "loading")
    waited_before = len(waiting(house))
    impatient.close()
    eventually(lambda: not waiting(house), within=1)
    answer = house.chat("alpha")

    assert waited_before == 1
    assert answer.status == 200
    assert house.running() == ["alpha"]


def test_a_slow_load_is_waited_for(serve: Callable[..., Hotseat]) -> None:
    """A request is held while its model loads, and then answered."""
    house = serve({"big": llama("big")})

    assert house.chat("big", max_tokens=1).status == 200


def phase_of(house: Hotseat, model: str) -> str:
    return str(house.call("GET", f"/hotseat/models/{model}").json()["phase"])


def waiting(house: Hotseat) -> list[object]:
    return list(house.call("GET", "/hotseat/queue").json()["waiting"])
