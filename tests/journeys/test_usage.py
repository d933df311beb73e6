"""Usage is what clients received, also if hotseat is killed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.usage.clients import requests_in, stored_in
from bench.usage.run import Run
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import Hotseat
from tests.support.llama import llama
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

BUSY_S = 30.0
"""A busy machine may take so long for a write; `just bench-usage` allows a second."""


async def test_usage_is_exact_for_every_api_but_for_kills(tmp_path: Path) -> None:
    """No request counts twice, and after an ordinary stop nothing is missing of what was not lost in a kill."""
    outcome = await Run(tmp_path, ForkedHotseat, 1, BUSY_S).play(requests=600, kills=2)

    assert outcome.holds, outcome.text()
    assert outcome.received >= 600
    assert [each.missing for each in outcome.comparisons][-1] == 0


def test_usage_is_stored_before_anybody_stops_hotseat(tmp_path: Path) -> None:
    """So a kill loses nothing of it."""
    config, file = {"models": {"alpha": stub("alpha")}}, tmp_path / "state/hotseat/usage.sqlite3"
    killed = ForkedHotseat(config, tmp_path).__enter__()
    for _ in range(3):
        killed.chat("alpha")
    eventually(lambda: requests_in(stored_in(file)) == 3)
    killed.process.kill()
    killed.process.wait(BUSY_S)
    eventually(lambda: not killed.processes())
    with ForkedHotseat(config, tmp_path) as rig:
        rig.chat("alpha")
        answer = rig.call("GET", "/hotseat/usage").json()

    assert answer["total"]["requests"] == 4


def test_usage_of_two_processes_is_one_sum(tmp_path: Path) -> None:
    """During a restart, the old process counts the stream that it still serves, and the new one counts the rest."""
    with Hotseat({"models": {"alpha": llama("alpha")}}, tmp_path) as hotseat:
        stream = hotseat.stream("alpha", max_tokens=200).until_it_speaks()
        assert hotseat.cli("restart").returncode == 0
        assert hotseat.chat("alpha").status == 200
        assert stream.read().done
        eventually(lambda: hotseat.call("GET", "/hotseat/usage").json()["total"]["requests"] == 2)
        total = hotseat.call("GET", "/hotseat/usage").json()["total"]

    assert total["unknown"] == 0
    assert total["completion_tokens"] > 4


def test_usage_goes_on_in_the_next_process(tmp_path: Path) -> None:
    """What one hotseat has counted is in the table that the next one prints, with what that one counts."""
    config = {"models": {"alpha": llama("alpha")}}
    with ForkedHotseat(config, tmp_path) as rig:
        first = rig.chat("alpha", 5).json()["usage"]
    with ForkedHotseat(config, tmp_path) as rig:
        second = rig.chat("alpha", 7).json()["usage"]
        printed = rig.cli("usage", "--by", "model", "--csv")

    model, requests, unknown, prompt, _, completion, estimated = printed.stdout.splitlines()[1].split(",")
    assert (model, requests, unknown, estimated) == ("alpha", "2", "0", "0"), printed
    assert int(prompt) == first["prompt_tokens"] + second["prompt_tokens"]
    assert int(completion) == first["completion_tokens"] + second["completion_tokens"]


def test_a_key_whose_client_leaves_every_stream_early(tmp_path: Path) -> None:
    """llama-server counts its tokens in the last event. Whoever leaves before it meets the budget all the same."""
    keys = [{"key": "secret-of-ann", "name": "ann", "tokens": "20/day"}, {"key": "secret-of-op", "role": "operate"}]
    ann, operator = ({"Authorization": f"Bearer secret-of-{name}"} for name in ("ann", "op"))
    with ForkedHotseat({"models": {"alpha": llama("alpha")}, "apiKeys": keys}, tmp_path) as rig:
        rig.stream("alpha", max_tokens=400, **ann).until_it_speaks().leave()
        eventually(lambda: rig.call("GET", "/hotseat/usage", **operator).json()["total"]["unknown"] == 1)
        refused = rig.chat("alpha", 1, **ann)
        total = rig.call("GET", "/hotseat/usage", **operator).json()["total"]

    assert refused.status == 429
    assert total["estimated_tokens"] >= 20
