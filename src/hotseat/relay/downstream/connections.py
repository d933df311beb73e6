"""All client connections: counts them, checks their deadlines, and drains them on shutdown.

One sweep over all connections costs less than a timer per request.
"""

from __future__ import annotations

import asyncio
import logging
import select
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.tasks import attempt

if TYPE_CHECKING:
    from hotseat.activity.recent import InProgress
    from hotseat.identifiers import ModelName, Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.connection import ClientConnection
    from hotseat.relay.downstream.limits import Excess
    from hotseat.relay.exchange.exchange import Exchange

log = logging.getLogger(__name__)

SWEEP_S: Seconds = 0.25
STOPPED_S: Seconds = 1.0
"""A longer gap between two sweeps means that the process was stopped or had no CPU."""
HUNG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
"""What Linux reports for a connection that the peer has closed, even if earlier bytes are unread."""


class Connections:
    def __init__(self, context: Context) -> None:
        self._context = context
        self.open: set[ClientConnection] = set()
        self.held: set[ClientConnection] = set()
        self.count = context.places
        self._all_gone = asyncio.Event()
        self._swept_at = context.now()
        self._loop = asyncio.get_running_loop()
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    # Called by connections

    def arrived(self, peer: str) -> Excess | None:
        """Count a connection; returns the limit that it exceeds, if any."""
        policy = self._context.policy
        return self.count.add(peer, policy.limits, is_proxy=policy.trusts(peer))

    def part(self, connection: ClientConnection) -> None:
        self.open.discard(connection)
        self.held.discard(connection)
        self.count.remove(connection.peer)
        if self._context.is_draining and not self.open:
            self._all_gone.set()

    # Called by the relay

    def in_progress(self) -> list[InProgress]:
        """Every request to a model that has not ended, oldest first."""
        found = [request for each in self._exchanges() if (request := each.in_progress()) is not None]
        return sorted(found, key=lambda request: request.ticket)

    def last_pieces(self, model: ModelName) -> list[object]:
        """The last data from the model's server, by request. While the objects stay the same, nothing arrived."""
        return [piece for each in self._exchanges() if (piece := each.last_piece(model)) is not None]

    def _exchanges(self) -> list[Exchange]:
        return [each.exchange for each in self.open if each.exchange is not None]

    def judge_again(self) -> int:
        """The policy has changed: end the requests that it no longer allows; returns how many."""
        ended = 0
        for connection in tuple(self.open):
            try:
                ended += connection.judge_again()
            except Exception:  # it is cut, so that the others are still checked
                log.exception("internal error client=%s", connection.peer)
                ended += attempt(connection.abort)
        return ended

    async def drain(self, within: Seconds) -> None:
        """Return when every client is gone, after `within` seconds at the latest."""
        for connection in tuple(self.open):
            if not attempt(connection.drain):
                attempt(connection.abort)
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self.open:  # one that was accepted before may have come after the last was gone
                    self._all_gone.clear()
                    await self._all_gone.wait()

    def close(self) -> None:
        self._sweeper.cancel()
        for connection in tuple(self.open):
            attempt(connection.abort)

    # Deadlines

    def _sweep(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        self.check_deadlines()
        self._look_for_departed()

    def check_deadlines(self) -> None:
        """After a stop of the process this waits for the next sweep: what clients sent in time is not read yet."""
        now, before = self._context.now(), self._swept_at
        self._swept_at = now
        if now - before > STOPPED_S:
            return
        for connection in [each for each in self.open if each.deadline <= now]:
            if not attempt(connection.time_is_up):
                attempt(connection.abort)

    def _look_for_departed(self) -> None:
        """Of whom the kernel reports a disconnect while we do not read: nobody would read the upstream's response."""
        if not self.held:
            return
        by_number = {each.transport.get_extra_info("socket").fileno(): each for each in self.held}
        poll = select.poll()
        for number in by_number:
            poll.register(number, HUNG_UP)
        for number, _ in poll.poll(0):
            attempt(by_number[number].eof_received)
            attempt(by_number[number].go_on)  # so that the transport sees it as well
