"""Shutdown: a load balancer that polls readiness gets a failing check first, and its requests are served meanwhile."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import START_S, Hotseat
from tests.support.virtual_time import advance, in_virtual_time
from tests.support.waiting import eventually

from hotseat.daemon.shutdown import HOSTS_NOTICE_S, LATELY_S, ShutdownSequence

if TYPE_CHECKING:
    from pathlib import Path

NOTICE_S = 5.0

SIGNALLED_WHEN_IT_LISTENS = """
import os, signal
from hotseat import app, cli
listen = app.Program.listen

async def listen_and_be_stopped(program):
    await listen(program)
    os.kill(os.getpid(), signal.SIGTERM)

app.Program.listen = listen_and_be_stopped
cli.main()
"""


def test_a_load_balancer_sees_not_ready_and_is_served_before_the_listener_closes(tmp_path: Path) -> None:
    """After SIGTERM new connections are still served while /hotseat/ready says no."""
    with ForkedHotseat({"shutdown": {"notice": "1h"}, "models": {}}, tmp_path) as rig:
        before = rig.call("GET", "/hotseat/ready")
        rig.process.terminate()
        eventually(lambda: rig.call("GET", "/hotseat/ready").status == 503)
        served = rig.call("GET", "/v1/models")

    assert before.status == 200
    assert served.status == 200


def test_after_the_notice_hotseat_ends(tmp_path: Path) -> None:
    """Not before, and with exit code 0."""
    with ForkedHotseat({"shutdown": {"notice": "1s"}, "models": {}}, tmp_path) as rig:
        rig.call("GET", "/hotseat/ready")
        began = time.monotonic()
        code = rig.terminate()
        took = time.monotonic() - began

    assert code == 0
    assert took >= 1


def test_where_nobody_asks_nobody_is_waited_for(tmp_path: Path) -> None:
    """Without a load balancer there is no notice to be taken, and hotseat ends at once."""
    with ForkedHotseat({"shutdown": {"notice": "1h"}, "models": {}}, tmp_path) as rig:
        code = rig.terminate()

    assert code == 0


def test_a_second_signal_ends_the_notice(tmp_path: Path) -> None:
    """The second signal skips the notice."""
    with ForkedHotseat({"shutdown": {"notice": "1h"}, "models": {}}, tmp_path) as rig:
        rig.call("GET", "/hotseat/ready")
        rig.process.terminate()
        eventually(lambda: rig.call("GET", "/hotseat/ready").status == 503)
        code = rig.terminate()

    assert code == 0


def test_a_signal_at_the_moment_the_port_opens_is_a_normal_shutdown(tmp_path: Path) -> None:
    """hotseat handles signals before it listens, so whoever can connect can also stop it."""
    rig = Hotseat({"models": {}}, tmp_path, program=(sys.executable, "-c", SIGNALLED_WHEN_IT_LISTENS))
    code = rig.process.wait(timeout=START_S)

    assert code == 0


async def seconds_of_notice(asked_before: float, *, to_hosts: bool = False) -> float:
    loop = asyncio.get_running_loop()
    leaving = ShutdownSequence()
    leaving.is_closing()
    await advance(asked_before)
    began = loop.time()
    await leaving.keep_serving(NOTICE_S, to_hosts=to_hosts)
    return loop.time() - began


@in_virtual_time
async def test_only_a_readiness_check_of_the_last_minute_delays_the_shutdown() -> None:
    """A single request long ago does not delay the shutdown."""
    lately, long_ago = await seconds_of_notice(LATELY_S - 1), await seconds_of_notice(LATELY_S + 1)

    assert lately == NOTICE_S
    assert long_ago == 0


@in_virtual_time
async def test_other_hosts_are_given_time_to_learn_of_it() -> None:
    """They route requests, so no poll is needed; a longer notice is long enough for them too."""
    watched, unwatched = [await seconds_of_notice(ago, to_hosts=True) for ago in (1, LATELY_S + 1)]

    assert watched == NOTICE_S
    assert unwatched == HOSTS_NOTICE_S
