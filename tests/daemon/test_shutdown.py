"""Shutdown: a load balancer that polls readiness is told first, and its requests are served meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.support.client import eventually
from tests.support.hotseat import Hotseat
from tests.support.virtual_time import in_virtual_time

from hotseat.daemon.shutdown import FELLOWS_HEAR_S, LATELY_S, Leaving

if TYPE_CHECKING:
    from pathlib import Path

NOTICE_S = 5.0


def test_a_load_balancer_is_told_and_served_before_the_door_closes(tmp_path: Path) -> None:
    """After SIGTERM new connections are still served while /hotseat/ready says no; then the exit code is 0."""
    with Hotseat({"shutdown": {"notice": "1s"}, "models": {}}, tmp_path) as house:
        before = house.call("GET", "/hotseat/ready")
        began = time.monotonic()
        house.process.terminate()
        eventually(lambda: house.call("GET", "/hotseat/ready").status == 503)
        served = house.call("GET", "/v1/models")
        code = house.process.wait(timeout=10)
        took = time.monotonic() - began

    assert before.status == 200
    assert served.status == 200
    assert code == 0
    assert took >= 1


def test_where_nobody_asks_nobody_is_waited_for(tmp_path: Path) -> None:
    """Without a load balancer there is no notice to be taken, and hotseat ends at once."""
    with Hotseat({"shutdown": {"notice": "1h"}, "models": {}}, tmp_path) as house:
        code = house.terminate()

    assert code == 0


def test_a_second_signal_ends_the_notice(tmp_path: Path) -> None:
    """The second signal skips the notice."""
    with Hotseat({"shutdown": {"notice": "1h"}, "models": {}}, tmp_path) as house:
        house.call("GET", "/hotseat/ready")
        house.process.terminate()
        eventually(lambda: house.call("GET", "/hotseat/ready").status == 503)
        code = house.terminate()

    assert code == 0


async def seconds_of_notice(asked_before: float, *, to_fellows: bool = False) -> float:
    loop = asyncio.get_running_loop()
    leaving = Leaving()
    leaving.is_closing()
    await asyncio.sleep(asked_before)
    began = loop.time()
    await leaving.give_notice(NOTICE_S, to_fellows=to_fellows)
    return loop.time() - began


@in_virtual_time
async def test_only_who_asked_within_the_last_minute_is_told() -> None:
    """A single request long ago does not delay the shutdown."""
    lately, long_ago = await seconds_of_notice(LATELY_S - 1), await seconds_of_notice(LATELY_S + 1)

    assert lately == NOTICE_S
    assert long_ago == 0


@in_virtual_time
async def test_other_hosts_are_given_time_to_hear_of_it() -> None:
    """They route requests, so no poll is needed; a longer notice is long enough for them too."""
    watched, unwatched = [await seconds_of_notice(ago, to_fellows=True) for ago in (1, LATELY_S + 1)]

    assert watched == NOTICE_S
    assert unwatched == FELLOWS_HEAR_S
