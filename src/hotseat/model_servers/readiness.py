"""Polls a starting server until it answers 200: often at first, so that a quick start is noticed at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import connected, fetch

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Seconds

PROBE_TIMEOUT_S = 2.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.25
PART = 0.02
"""Of the elapsed time: the average delay until readiness is noticed is half of it."""
OK = 200
UNREACHED = "nothing is listening there"
UNANSWERED = "it accepted the connection, but did not answer the health check"


class Readiness:
    """Waits for one server's first 200; `last_answer` says how far it got."""

    def __init__(
        self, address: Address, check_endpoint: str | None, connector: Connector | None = None, *, lines: bytes = b""
    ) -> None:
        """`lines` are sent with each question."""
        self._connector, self._lines = connector or Connector(), lines
        self._addresses_of = addresses_of(address)
        self._check_endpoint = check_endpoint
        self.last_answer = UNREACHED
        self.server = ""
        """The `Server` header of the answer."""

    async def reached(self) -> Address:
        """Return the first address that answers. Waits without limit: the caller sets one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            for address in self._addresses_of:
                if await self._opens(address):
                    return address
            await asyncio.sleep(pause(loop.time() - began))

    async def _opens(self, address: Address) -> bool:
        if self._check_endpoint is None:
            return await accepts(address, self._connector)
        try:
            answer = await fetch(
                address,
                self._check_endpoint,
                self._connector,
                lines=self._lines,
                within=PROBE_TIMEOUT_S,
                most=0,
                when_connected=self._connected,
            )
        except (ConnectionRefusedError, FileNotFoundError, TimeoutError):
            return False
        except (OSError, ValueError) as problem:
            self.last_answer = f"it sent an invalid response ({problem})"
        else:
            self.server = answer.fields.get("server", "")
            self.last_answer = f"the last response was {answer.status}"
            return answer.status == OK
        return False

    def _connected(self) -> None:
        if self.last_answer == UNREACHED:  # an earlier response says more
            self.last_answer = UNANSWERED


def addresses_of(address: Address) -> list[Address]:
    """Addresses to try: `localhost` is 127.0.0.1 to some servers and ::1 to others."""
    if address.host != "localhost" or address.unix_path or address.tls:  # a certificate names the host
        return [address]
    return [address._replace(host="127.0.0.1"), address._replace(host="::1")]


def pause(elapsed: Seconds) -> Seconds:
    return min(max(PART * elapsed, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


async def accepts(address: Address, connector: Connector) -> bool:
    """Does a connection succeed?"""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S), connected(address, connector):
            return True
    except OSError:  # includes timeouts
        return False
