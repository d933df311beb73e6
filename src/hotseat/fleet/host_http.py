"""Requests of this host to other hosts of the fleet: each with a proof, a deadline and a bound on the response's size.

Client requests go through the relay. These are an operator's, and rare.
"""

from __future__ import annotations

from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.catalog.template import address_of
from hotseat.fleet.host_headers import OPERATE, client_in_line, line_of_proof, lines_for_host, said_by
from hotseat.identifiers import ClientId
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch, lines_of
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hotseat.fleet.proofs import Signer
    from hotseat.identifiers import Bytes, HostName, Seconds
    from hotseat.net.http_client import Answer

MOST_BYTES: Bytes = 256 << 10
"""Of an answer that is parsed at once: hostile JSON of this size takes 40 ms of a processor."""
MOST_OF_A_LIST: Bytes = 2 << 20
"""6,000 requests in progress."""
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
