"""Requests of this host to other hosts of the fleet: each with a proof, a deadline and a bound on the response's size.

Client requests go through the relay. These are an operator's, and rare.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from hotseat.catalog.template import address_of
from hotseat.error_bodies import one_line
from hotseat.errors import HostUnresponsive, NotRunning
from hotseat.fleet.host_headers import OPERATE, client_in_line, line_of_proof, lines_for_host, said_by
from hotseat.fleet.member import PathState
from hotseat.fleet.roster import LONGEST_REASON
from hotseat.identifiers import ClientId
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch, lines_of
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from hotseat.fleet.proofs import Signer
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Address, Bytes, HostName, ModelName, Seconds
    from hotseat.net.http_client import Answer

MOST_BYTES: Bytes = 256 << 10
"""Of an answer that is parsed at once: hostile JSON of this size takes 40 ms of a processor."""
MOST_OF_A_LIST: Bytes = 2 << 20
"""6,000 requests in progress."""
DETAILS_S: Seconds = 2.0
"""How long a status query waits for another host."""
STOP_S: Seconds = 600.0
"""Lets requests in flight finish; after that the host counts as stuck."""
AT_ONCE = 32
"""So many connections, and so many answers of 2 MiB in memory."""
ANSWER_S: Seconds = 5.0
QUIET_S: Seconds = 30.0
"""Feeds have a heartbeat every ten seconds."""
OPERATOR = ClientId("operator")


class Receiver(NamedTuple):
    host: HostName
    url: str


def reason_of(problem: OSError | ValueError) -> str:
    """Why there is no usable response."""
    if isinstance(problem, SSLCertVerificationError):
        return f"its certificate is not trusted: {problem.verify_message}"
    return getattr(problem, "strerror", None) or str(problem) or "timeout"


class HostHttp:
    """Without a usable response, each method raises OSError, which includes TimeoutError, or ValueError."""

    def __init__(self, me: HostName, signer: Signer) -> None:
        self._me = me
        self._signer = signer
        self._connector = Connector()

    async def ask(
        self, method: str, to: Receiver, path: str, within: Seconds, role: bytes = OPERATE, client: ClientId = OPERATOR
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON. `client` is who asked us, for the other host's audit."""
        answer = await self.fetch(method, to, path, within, role, client)
        said = parsed(answer.body)
        if not isinstance(said, dict):
            raise ValueError("the response did not come from a hotseat server")
        return answer.status, said

    async def fetch(
        self,
        method: str,
        to: Receiver,
        path: str,
        within: Seconds,
        role: bytes = OPERATE,
        client: ClientId = OPERATOR,
        most: Bytes = MOST_BYTES,
    ) -> Answer:
        """The whole response: one that is too large is an error."""
        address, lines = address_of(to.url), self._lines(method, to.host, path, role, client)
        answer = await fetch(address, path, self._connector, method=method, lines=lines, within=within, most=most + 1)
        if len(answer.body) > most:
            raise ValueError(f"the response is larger than {most >> 10} KiB")
        return answer

    def follow(self, to: Receiver, path: str, within: Seconds, quiet_s: Seconds) -> AsyncGenerator[bytes, None]:
        """The lines of an endless response that begins in time; silence for `quiet_s` is an error."""
        lines = self._lines("GET", to.host, path, OPERATE, OPERATOR)
        return lines_of(address_of(to.url), path, self._connector, lines=lines, within=within, quiet_s=quiet_s)

    def _lines(self, method: str, host: HostName, path: str, role: bytes, client: ClientId) -> bytes:
        said = said_by(self._me.encode(), method.encode(), path.encode(), b"", client_in_line(client), role)
        return lines_for_host(self._me, client, role) + line_of_proof(self._signer.proof(host, said))


class FleetClient:
    """Asks other hosts of the fleet for a model's state, or to stop a model."""

    def __init__(self, http: HostHttp) -> None:
        self._http = http
        self._connector = Connector()

    async def path_to(self, address: Address) -> PathState:
        """Does a hotseat answer there in time?"""
        try:
            answer = await fetch(address, "/health", self._connector, within=DETAILS_S, most=MOST_BYTES)
            check_health(answer)
        except (OSError, ValueError) as problem:  # includes timeouts
            return PathState(reason_of(problem))
        ahead_s = None
        with suppress(ValueError):  # a proxy may have removed it
            ahead_s = float(round(parsedate_to_datetime(answer.fields.get("date", "")).timestamp() - time.time()))
        return PathState("", answer.certificate_ends, ahead_s)

    async def model_details(self, host: HostName, address: str, model: ModelName) -> dict[str, Any]:
        """What a host reports about a model. Raises HostUnresponsive with the problem."""
        try:
            path = f"/hotseat/models/{in_path(model)}?local=true"
            status, said = await self._http.ask("GET", Receiver(host, address), path, DETAILS_S)
        except (OSError, ValueError) as problem:  # includes timeouts
            raise HostUnresponsive(f"{host} did not answer ({reason_of(problem)})") from problem
        if status != HTTPStatus.OK:
            raise HostUnresponsive(f"{host} responded {status}: {said.get('error')}")
        return said

    async def stop(self, host: HostName, address: str, model: ModelName) -> None:
        """Return once the model's process there is gone. Raises NotRunning, or HostUnresponsive with the problem."""
        try:
            path = f"/upstream/{in_path(model)}"
            status, said = await self._http.ask("DELETE", Receiver(host, address), path, STOP_S)
        except (OSError, ValueError) as problem:
            raise HostUnresponsive(f"{address} did not respond ({reason_of(problem)})") from problem
        if status == HTTPStatus.CONFLICT:
            raise NotRunning(str(said.get("error")))
        if status != HTTPStatus.OK:
            raise HostUnresponsive(f"{address} responded {status}: {said.get('error')}")


def check_health(answer: Answer) -> None:
    """ValueError unless it is that of a hotseat: a proxy also answers for a host that is gone."""
    with suppress(ValueError):
        said = parsed(answer.body)
        if answer.status == HTTPStatus.OK and isinstance(said, dict) and "models" in said:  # a model server has none
            return
    raise ValueError(f"a response with status {answer.status}, but not that of a healthy hotseat")


def in_path(model: ModelName) -> str:
    return quote(model, safe="")


T = TypeVar("T")


class OtherHosts:
    """What the other hosts of the fleet answer: many are asked at once, and one that is silent delays nobody."""

    def __init__(self, roster: Roster, http: HostHttp) -> None:
        self._roster, self._http = roster, http

    def names(self) -> list[HostName]:
        return sorted(member.name for member in self._roster.hosts if member.name != self._roster.me)

    async def read_all(
        self, hosts: Iterable[HostName], path: str, kept: Callable[[bytes], T]
    ) -> dict[HostName, T | HostUnresponsive]:
        """What is kept of each host's answer, or the problem: no answer in time, or one that `kept` cannot read.

        `kept` gets each answer as it arrives, in a turn of the event loop of its own, and the rest of it is forgotten.
        It raises ValueError for an answer that it cannot read.
        """
        places = asyncio.Semaphore(AT_ONCE)

        async def read(host: HostName) -> T | HostUnresponsive:
            async with places:
                return await self._read(host, path, kept)

        names = list(hosts)
        return dict(zip(names, await asyncio.gather(*map(read, names)), strict=True))

    async def _read(self, host: HostName, path: str, kept: Callable[[bytes], T]) -> T | HostUnresponsive:
        try:
            answer = await self._http.fetch("GET", self.receiver(host), path, ANSWER_S, most=MOST_OF_A_LIST)
            if answer.status != HTTPStatus.OK:
                return HostUnresponsive(f"{host} responded {answer.status}")
            return kept(answer.body)
        except HostUnresponsive as problem:
            return problem
        except (OSError, ValueError) as problem:  # includes timeouts
            return HostUnresponsive(f"{host} did not answer ({one_line(reason_of(problem), LONGEST_REASON)})")

    async def follow(self, host: HostName, path: str) -> AsyncGenerator[bytes, None]:
        """The lines of a feed of that host; HostUnresponsive if it breaks off."""
        try:
            async with aclosing(self._http.follow(self.receiver(host), path, ANSWER_S, QUIET_S)) as lines:
                async for line in lines:
                    yield line
        except (OSError, ValueError) as problem:
            raise HostUnresponsive(f"{host} does not answer any more ({reason_of(problem)})") from problem

    def receiver(self, host: HostName) -> Receiver:
        member = self._roster.hosts.get(host)
        if member is None:
            raise HostUnresponsive(f"{host} has left the fleet")
        return Receiver(host, member.record.address)
