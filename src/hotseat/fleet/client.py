"""Asks other hosts of the fleet for a model's state, or to stop a model."""

from __future__ import annotations

import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hotseat.errors import HostUnresponsive, NotRunning
from hotseat.fleet.host_http import MOST_BYTES, Receiver, reason_of
from hotseat.fleet.member import PathState
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.fleet.host_http import HostHttp
    from hotseat.identifiers import Address, HostName, ModelName, Seconds
    from hotseat.net.http_client import Answer

DETAILS_S: Seconds = 2.0
"""How long a status query waits for another host."""
STOP_S: Seconds = 600.0
"""Lets requests in flight finish; after that the host counts as stuck."""


class FleetClient:
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
