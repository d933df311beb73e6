"""A server in use that does not answer is reported; one that works is left alone."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import model
from tests.support.waiting import come_true

from hotseat.identifiers import Address, LaunchId, ModelName, Upstream
from hotseat.model_servers import liveness
from hotseat.model_servers.liveness import BUSY, COMPUTING, LIMIT_S, LOOKS, Liveness
from hotseat.model_servers.os_processes import processor_time
from hotseat.scheduling.view import InUse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.supervisor_rig import SupervisorRig

    from hotseat.scheduling.events import UpstreamReady, UpstreamUnresponsive

SHORT_S = 0.6
LOOK_S = LIMIT_S / LOOKS
QWEN, LAUNCH = ModelName("qwen"), LaunchId(1)
NOBODY = InUse(QWEN, LAUNCH, Upstream(Address("127.0.0.1", 9)), "/health")
"""Nothing listens there."""


class Watched:
    """Servers in use, what came of their answers, and what was reported."""

    def __init__(self, *servers: InUse) -> None:
        self.servers = list(servers)
        self.pieces: list[object] = []
        self.reports: list[UpstreamUnresponsive] = []
        self.refuses: set[LaunchId] = set()
        self.now = 0.0

    def report(self, report: UpstreamUnresponsive) -> None:
        if report.launch in self.refuses:
            raise RuntimeError("told to fail")
        self.reports.append(report)

    def liveness(self) -> Liveness:
        """On a clock of its own, with the limit that users have."""
        return Liveness(lambda: self.servers, lambda _: [*self.pieces], self.report, clock=lambda: self.now)

    async def pass_by(
        self,
        watch: Liveness,
        seconds: float,
        look_s: float = LOOK_S,
        between: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`between` waits for what happens until the next look; by default for the outcome of every probe."""
        until = self.now + seconds
        while self.now < until:
            self.now += look_s
            watch.look()
            await (between() if between else come_true(lambda: not [*watch._probes]))


def in_use(ready: UpstreamReady, check_endpoint: str | None = "/health") -> InUse:
    return InUse(ready.model, ready.launch, ready.upstream, check_endpoint)


async def computed(ready: UpstreamReady) -> None:
    """For as long as makes it busy between two looks."""
    enough = processor_time(ready.upstream.pid) + BUSY * LOOK_S
    await come_true(lambda: processor_time(ready.upstream.pid) >= enough)


@asynccontextmanager
async def watching(*servers: InUse) -> AsyncIterator[Watched]:
    """For real, with a short limit."""
    watched = Watched(*servers)
    watch = Liveness(lambda: watched.servers, lambda _: watched.pieces, watched.report, limit_s=SHORT_S)
    task = asyncio.get_running_loop().create_task(watch.watch())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_stopped_server_is_reported_once(rig: SupervisorRig, caplog: pytest.LogCaptureFixture) -> None:
    """With its model, its launch and how long it was silent."""
    ready = await rig.ready(model("healthy"))
    assert ready.upstream.pid
    os.kill(ready.upstream.pid, signal.SIGSTOP)
    watched = Watched(in_use(ready))
    watch = watched.liveness()
    await watched.pass_by(watch, 3 * LIMIT_S, between=lambda: asyncio.sleep(0))  # its probe has no outcome
    await watch._probes.aclose()
    os.kill(ready.upstream.pid, signal.SIGCONT)
    [report] = watched.reports

    assert (report.model, report.launch) == (ready.model, ready.launch)
    assert report.silent_s >= LIMIT_S
    assert "model server is unresponsive and is stopped model=qwen" in caplog.text


async def test_a_server_that_answers_its_health_check_is_left_alone(rig: SupervisorRig) -> None:
    """However long its requests take, and whatever it answers."""
    ready = await rig.ready(model("healthy"))
    watched = Watched(in_use(ready), in_use(ready, "/not-there")._replace(launch=LaunchId(99)))
    watch = watched.liveness()
    await watched.pass_by(watch, 4 * LIMIT_S)

    assert watched.reports == []


async def test_a_server_of_one_thread_that_computes_is_left_alone(rig: SupervisorRig) -> None:
    """It does not answer meanwhile, but it works."""
    ready = await rig.ready(model("computes_when_asked"))
    reader, writer = await asyncio.open_connection("127.0.0.1", ready.upstream.address.port)
    writer.write(b"GET /compute HTTP/1.1\r\n\r\n")
    await rig.said("computing")
    watched = Watched(in_use(ready))
    watch = watched.liveness()
    await watched.pass_by(watch, 2 * LIMIT_S, between=lambda: computed(ready))
    await watch._probes.aclose()
    writer.close()
    reader.feed_eof()

    assert watched.reports == []


async def test_a_server_that_only_spins_is_reported_after_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that lost its device may wait for it with all of a processor."""
    watched = Watched(NOBODY)
    monkeypatch.setattr(liveness, "processor_time", lambda _: watched.now)
    watch = watched.liveness()
    await watched.pass_by(watch, COMPUTING * LIMIT_S)

    assert watched.reports == []
    await watched.pass_by(watch, 2 * LIMIT_S)
    assert [report.silent_s > COMPUTING * LIMIT_S for report in watched.reports] == [True]


async def test_a_server_without_a_health_check_is_not_judged(rig: SupervisorRig) -> None:
    """Its silence may be work."""
    ready = await rig.ready(model("hangs_health", check_endpoint=None))
    watched = Watched(in_use(ready, None))
    await watched.pass_by(watched.liveness(), 2 * LIMIT_S)

    assert watched.reports == []


async def test_thirty_seconds_without_a_sign_are_the_limit() -> None:
    """Readiness ends after half of them."""
    watched = Watched(NOBODY)
    watch = watched.liveness()
    await watched.pass_by(watch, 14)
    assert (watched.reports, dict(watch.silent())) == ([], {})
    await watched.pass_by(watch, 15)
    assert (watched.reports, dict(watch.silent())) == ([], {QWEN: 28.0})
    await watched.pass_by(watch, 2)

    assert [report.silent_s for report in watched.reports] == [30.0]


async def test_bytes_of_an_answer_are_a_sign_of_life() -> None:
    """Also where each piece is like the one before; a client that hangs up is none."""
    watched = Watched(NOBODY)
    watch = watched.liveness()
    for _ in range(10):
        watched.pieces = [bytearray(b": ping\n\n"), bytearray(b": ping\n\n")]
        await watched.pass_by(watch, 10)
    assert watched.reports == []
    for _ in range(4):
        watched.pieces = watched.pieces[:1]
        await watched.pass_by(watch, 10)

    assert len(watched.reports) == 1


async def test_an_unused_server_is_not_watched() -> None:
    """Its silence begins with the next request."""
    watched = Watched(NOBODY)
    watch = watched.liveness()
    for _ in range(3):
        watched.servers = [NOBODY]
        await watched.pass_by(watch, 20)
        watched.servers = []
        await watched.pass_by(watch, 1)

    assert watched.reports == []


async def test_time_in_which_hotseat_itself_stood_still_is_not_counted() -> None:
    """hotseat could not have received an answer."""
    watched = Watched(NOBODY)
    watch = watched.liveness()
    for _ in range(5):
        await watched.pass_by(watch, 20)
        await watched.pass_by(watch, 5, look_s=5)

    assert watched.reports == []


async def test_a_machine_that_slept_gives_its_servers_a_fresh_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock stood still meanwhile, so only the other clock tells."""
    watched = Watched(NOBODY)
    watch = watched.liveness()
    await watched.pass_by(watch, 29)
    monkeypatch.setattr(liveness, "suspended_s", lambda: 1e9)
    await watched.pass_by(watch, 29)
    assert watched.reports == []
    await watched.pass_by(watch, 2)

    assert len(watched.reports) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_no_server_is_blamed_where_it_cannot_be_asked(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Without descriptors we cannot even connect."""

    async def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(liveness, "fetch", fails)
    watched = Watched(NOBODY)
    await watched.pass_by(watched.liveness(), 100)

    assert watched.reports == []


async def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    """A listener that raises does not end the watch."""
    other = NOBODY._replace(model=ModelName("llama"), launch=LaunchId(2))
    async with watching(NOBODY, other) as watched:
        watched.refuses.add(LAUNCH)
        await come_true(lambda: [report.launch for report in watched.reports] == [other.launch])

    assert "background loop failed" in caplog.text
