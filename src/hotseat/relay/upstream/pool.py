"""Connections to upstreams: idle kept-alive ones, and new ones."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import cached_property
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import Connector, in_plain_words
from hotseat.relay.http.head_cache import Memory
from hotseat.relay.upstream.connection import UpstreamConnection
from hotseat.relay.upstream.response_reader import ResponseReader
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.catalog.spec import Timeouts
    from hotseat.identifiers import Address, Instant, Seconds
    from hotseat.relay.http.response_head import ResponseHead

    Connected = Callable[[UpstreamConnection], None]
    Failed = Callable[[str], None]

log = logging.getLogger(__name__)

SWEEP_S: Seconds = 1.0
MOST_IDLE = 32
"""Connections to one upstream that are kept for longer than that: clients need their descriptors."""
MOST_TOGETHER = 96
"""To all upstreams, the newest of each first: less than half of what `daemon/file_limit.py` reserves, also if both ends
are in this process."""


class Pool:
    def __init__(self, connector: Connector | None = None) -> None:
        self._connector = connector or Connector()
        self._loop = asyncio.get_running_loop()
        self.now: Callable[[], Instant] = self._loop.time
        self._idle: dict[Address, list[UpstreamConnection]] = {}
        self._tasks = Tasks()
        self.heads: Memory[ResponseHead] = Memory()
        """Parsed heads of responses."""
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    @property
    def idle(self) -> int:
        """How many connections are idle."""
        return sum(map(len, self._idle.values()))

    def take(self, address: Address) -> UpstreamConnection | None:
        """An idle connection that should still be alive, the most recent first."""
        idle = self._idle.get(address)
        now = self.now() if idle else 0.0
        while idle:
            connection = idle.pop()
            if connection.can_be_used(now):
                return connection
            connection.close()
        return None

    def put_back(self, connection: UpstreamConnection) -> None:
        self._idle.setdefault(connection.address, []).append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """The other side closed it while it was idle."""
        idle = self._idle.get(connection.address, [])
        if connection in idle:
            idle.remove(connection)

    def leave(self, address: Address) -> None:
        """The server at this address is exiting."""
        for connection in self._idle.pop(address, []):
            connection.close()

    def connect(self, address: Address, connected: Connected, failed: Failed, timeouts: Timeouts) -> asyncio.Task[None]:
        """Connect; exactly one of the two callbacks is called, unless the task is cancelled."""
        return self._tasks.start(self._connect(address, connected, failed, timeouts), f"connect to {address}")

    async def _connect(self, address: Address, connected: Connected, failed: Failed, timeouts: Timeouts) -> None:
        within, connection = patience(address, timeouts), None
        try:
            async with asyncio.timeout(within):
                connection = await self._opened(address)
            connection.keep_to(timeouts)
        except TimeoutError:
            return failed(f"no connection to {address} within {within:g} s")
        except OSError as problem:
            return failed(f"no connection to {address}: {in_plain_words(problem).strerror or problem}")
        except UnicodeError as problem:  # an invalid host name was looked up
            return failed(f"no connection to {address}: {problem}")
        except Exception as problem:
            if connection is not None:
                connection.close()
            log.exception("internal error action=connect address=%s", address)
            return failed(f"no connection to {address}: {problem}")
        return connected(connection)

    async def _opened(self, address: Address) -> UpstreamConnection:
        def make() -> UpstreamConnection:
            return UpstreamConnection(address, ResponseReader(self.heads), self)

        if address.unix_path:
            _, connection = await self._loop.create_unix_connection(make, address.unix_path)
        else:
            tls = self._tls if address.tls else None
            way = await self._connector.way_to(address)
            _, connection = await self._loop.create_connection(make, ssl=tls, **way)
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _sweep(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        now = self.now()
        newest_of_each = zip_longest(*(idle[: -MOST_IDLE - 1 : -1] for idle in self._idle.values()))
        usable = (each for each in chain.from_iterable(newest_of_each) if each and each.can_be_used(now))
        kept = {*islice(usable, MOST_TOGETHER)}
        for idle in self._idle.values():
            for connection in [each for each in idle if each not in kept]:
                idle.remove(connection)
                connection.close()
        self._idle = {address: idle for address, idle in self._idle.items() if idle}

    async def aclose(self) -> None:
        self._sweeper.cancel()
        await self._tasks.aclose()
        for address in list(self._idle):
            self.leave(address)


def patience(address: Address, timeouts: Timeouts) -> Seconds | None:
    """Time limit for connecting, including the TLS handshake; None: no limit."""
    if timeouts.connect_s is None or not address.tls:
        return timeouts.connect_s
    return None if timeouts.tls_handshake_s is None else timeouts.connect_s + timeouts.tls_handshake_s
