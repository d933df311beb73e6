"""Asks other hosts of the fleet for a model's state, or to stop a model.

Client requests go through the relay. These are an operator's, and rare.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hotseat.catalog.template import address_of
from hotseat.errors import HostUnresponsive, NotRunning
from hotseat.fleet.host_headers import OPERATE, line_of_proof, lines_for_host, said_by
from hotseat.identifiers import ClientId
from hotseat.net.happy_eyeballs import Dialler
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.fleet.host_proof import Signer
    from hotseat.identifiers import Address, Bytes, HostName, ModelName, Seconds

DETAILS_S: Seconds = 2.0
"""How long a status query waits for another host."""
STOP_S: Seconds = 600.0
"""Lets requests in flight finish; after that the host counts as stuck."""
MOST_BYTES: Bytes = 4 << 20
OPERATOR = ClientId("operator")


class FleetClient:
    def __init__(self, me: HostName, signer: Signer) -> None:
        self._me = me
        self._signer = signer
        self._lines = lines_for_host(me, OPERATOR, OPERATE)
        self._dialler = Dialler()

    async def answers(self, address: Address) -> bool:
        """Does somebody answer there in time?"""
        try:
            await fetch(address, "/health", self._dialler, within=DETAILS_S, most=MOST_BYTES)
        except (OSError, ValueError):  # includes timeouts
            return False
        return True

    async def model_details(self, host: HostName, address: str, model: ModelName) -> dict[str, Any] | None:
        """What a host reports about a model; None if it does not answer in time."""
        try:
            path = f"/hotseat/models/{in_path(model)}?local=true"
            status, said = await self._ask("GET", host, address, path, DETAILS_S)
        except (OSError, ValueError):  # includes timeouts
            return None
        return said if status == HTTPStatus.OK else None

    async def stop(self, host: HostName, address: str, model: ModelName) -> None:
        """Return once the model's process there is gone. Raises NotRunning, or HostUnresponsive with the problem."""
        try:
            status, said = await self._ask("DELETE", host, address, f"/upstream/{in_path(model)}", STOP_S)
        except (OSError, ValueError) as problem:
            raise HostUnresponsive(f"{address} did not respond ({str(problem) or 'timeout'})") from problem
        if status == HTTPStatus.CONFLICT:
            raise NotRunning(str(said.get("error")))
        if status != HTTPStatus.OK:
            raise HostUnresponsive(f"{address} responded {status}: {said.get('error')}")

    async def _ask(
        self, method: str, host: HostName, url: str, path: str, within: Seconds
    ) -> tuple[int, dict[str, Any]]:
        address, lines = address_of(url), self._lines + self._proof(method, host, path)
        answer = await fetch(address, path, self._dialler, method=method, lines=lines, within=within, most=MOST_BYTES)
        said = parsed(answer.body)
        if not isinstance(said, dict):
            raise ValueError("the response did not come from a hotseat server")
        return answer.status, said

    def _proof(self, method: str, host: HostName, path: str) -> bytes:
        said = said_by(self._me.encode(), method.encode(), path.encode(), b"", OPERATOR.encode(), OPERATE)
        return line_of_proof(self._signer.proof(host, said))


def in_path(model: ModelName) -> str:
    return quote(model, safe="")
