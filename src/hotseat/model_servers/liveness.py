"""Detects servers that hang: one in use that gives no sign of life for 30 s is reported.

A sign of life is a byte of a response or any answer to the health check. A single-threaded server answers nothing while
it computes, so processor time counts too, but for ten times the limit only: a driver that lost its device may spin.
Nothing is measured while bytes arrive or the server is unused. Exempt are servers without a health check and servers
that cannot write because a client does not read.
"""

from __future__ import annotations

import errno
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from hotseat.catalog.template import PORT, fill_hole
from hotseat.model_servers.api_key import authorization
from hotseat.model_servers.os_processes import processor_time
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.scheduling.events import UpstreamUnresponsive
from hotseat.tasks import Tasks, forever

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hotseat.identifiers import Instant, LaunchId, ModelName, Seconds
    from hotseat.scheduling.view import InUse

log = logging.getLogger(__name__)

LIMIT_S: Seconds = 30.0
LOOKS = 30
"""Checks per limit."""
LATE_S: Seconds = 1.0
"""If a check is this late, hotseat was stopped or starved: silence until then does not count."""
BUSY = 0.02
"""Of one processor: a server above this computes; idle threads of a hanging server use less."""
COMPUTING = 10
"""Times the limit: a server that computes this long without any answer, even to its health check, is reported."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Sample(NamedTuple):
    at: Instant
    last_pieces: Sequence[object]
    processor_s: Seconds

    def has_new_bytes_since(self, before: Sample) -> bool:
        known = set(map(id, before.last_pieces))
        return any(id(piece) not in known for piece in self.last_pieces)

    def has_computed_since(self, before: Sample) -> bool:
        return self.processor_s - before.processor_s >= BUSY * (self.at - before.at)


class Silence:
    """The time since the last sign of life of one launch in use."""

    def __init__(self, model: ModelName, now: Instant) -> None:
        self.model = model
        self.since = now
        self.answered_at = now
        """The last sign other than processor time."""
        self.sample: Sample | None = None
        self.probe: asyncio.Task[None] | None = None
        self.is_reported = False

    def end(self, now: Instant) -> None:
        self.answered_at = now
        self.start_again(now)

    def start_again(self, now: Instant) -> None:
        self.since, self.sample = now, None


class Liveness:
    def __init__(
        self,
        in_use: Callable[[], Iterable[InUse]],
        last_pieces: Callable[[ModelName], Sequence[object]],
        report: Callable[[UpstreamUnresponsive], None],
        limit_s: Seconds = LIMIT_S,
        clock: Callable[[], Instant] = time.monotonic,
    ) -> None:
        """`last_pieces`: the last data from a model's server, by request. The same objects mean no new data."""
        self._in_use, self._last_pieces, self._report = in_use, last_pieces, report
        self._limit_s, self._every_s, self._clock = limit_s, limit_s / LOOKS, clock
        self._silences: dict[LaunchId, Silence] = {}
        self._looked_at = clock()
        self._slept_s = suspended_s()
        self._connector = Connector()
        self._probes = Tasks()

    def silent(self) -> Mapping[ModelName, Seconds]:
        """Servers without a sign of life for half of the limit, and for how long."""
        now = self._clock()
        silent = {silence.model: now - silence.since for silence in self._silences.values()}
        return {model: seconds for model, seconds in silent.items() if seconds > self._limit_s / 2}

    async def watch(self) -> None:
        """Never returns; cancel it to stop."""
        try:
            await forever(self._look_at_all, "liveness", self._every_s)
        finally:
            await self._probes.aclose()

    async def _look_at_all(self) -> None:
        self.look()

    def look(self) -> None:
        now = self._clock()
        servers = {server.launch: server for server in self._in_use() if server.check_endpoint is not None}
        self._forget(launch for launch in [*self._silences] if launch not in servers)
        if self._was_away(now):
            for silence in self._silences.values():
                silence.end(now)
        for server in servers.values():
            self._look_at(server, self._silences.setdefault(server.launch, Silence(server.model, now)), now)

    def _forget(self, launches: Iterable[LaunchId]) -> None:
        for launch in launches:
            if probe := self._silences.pop(launch).probe:
                probe.cancel()

    def _was_away(self, now: Instant) -> bool:
        """Was this process stopped or starved, or the machine suspended, since the last check?"""
        late_s, slept_s = now - self._looked_at - self._every_s, suspended_s()
        asleep_s, self._slept_s, self._looked_at = slept_s - self._slept_s, slept_s, now
        return max(late_s, asleep_s) > LATE_S

    def _look_at(self, server: InUse, silence: Silence, now: Instant) -> None:
        if now - silence.since < self._limit_s / 3 or silence.is_reported:
            return None
        before = silence.sample
        silence.sample = Sample(now, self._last_pieces(server.model), processor_time(server.upstream.pid))
        if before is None:
            return None
        if silence.sample.has_new_bytes_since(before):
            return silence.end(now)
        if silence.probe is None or silence.probe.done():
            silence.probe = self._probes.start(self._ask(server, silence), f"is {server.model} alive")
        may_compute = now - silence.answered_at < COMPUTING * self._limit_s
        if may_compute and silence.sample.has_computed_since(before):
            silence.start_again(now)
        elif now - silence.since >= self._limit_s:
            self._give_up(server, silence, now - silence.answered_at)
        return None

    async def _ask(self, server: InUse, silence: Silence) -> None:
        """One health check without a short timeout: a slow answer is a sign of life."""
        address = server.upstream.address
        try:
            path = fill_hole(server.check_endpoint or "", PORT, address.port)
            lines = authorization(server.upstream.api_key)
            await fetch(address, path, self._connector, lines=lines, within=self._limit_s, most=0)
        except (OSError, ValueError) as problem:
            if getattr(problem, "errno", None) not in OUT_OF_DESCRIPTORS:  # otherwise the server is not to blame
                return
        silence.end(self._clock())

    def _give_up(self, server: InUse, silence: Silence, silent_s: Seconds) -> None:
        silence.is_reported = True
        log.warning("model server is unresponsive and is stopped model=%s silent_s=%.0f", server.model, silent_s)
        self._report(UpstreamUnresponsive(server.model, server.launch, silent_s))


def suspended_s() -> Seconds:
    """Time since boot that the machine was suspended; 0 if the system does not say."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
