"""Routes a request to a fleet host: selects it, waits for agreement if needed, and retries if it refuses.

A host that refused a request is excluded for a while, so this ends: with another host, this one, or an error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError
from hotseat.fleet.route import OtherHost

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.route import Route
    from hotseat.identifiers import ClientId, ModelName
    from hotseat.relay.http.response_head import ResponseHead


class FleetHop:
    def __init__(
        self,
        hosts: HostSelector,
        model: ModelName,
        client: ClientId,
        send_to: Callable[[Route], None],
        run: Callable[[Callable[[], object]], None],
    ) -> None:
        """`run` tells the client what its argument raises: the callers are callbacks, which could not."""
        self._hosts, self._model, self._client, self._send_to, self._run = hosts, model, client, send_to, run
        self._at: OtherHost | None = None
        self._agreeing: asyncio.Task[None] | None = None

    def find(self) -> None:
        """The request is then sent, waiting for an agreement, or refused, whatever goes wrong."""
        self._run(self._find)

    def _find(self) -> None:
        where = self._hosts.select(self._model, self._client)
        if where is not None:
            return self._go(where)
        self._agreeing = self._hosts.claim_and_select(self._model, self._client, self._agreed)
        return self._agreeing.add_done_callback(self._agreement_ended)

    def _agreed(self, where: Route | HotseatError) -> None:
        self._agreeing = None
        self._run(partial(self._go, where))

    def _agreement_ended(self, agreeing: asyncio.Task[None]) -> None:
        """If the task raised instead of reporting a result, nobody else would answer the client."""
        if not agreeing.cancelled():
            self._run(agreeing.result)

    def _go(self, where: Route | HotseatError) -> None:
        if isinstance(where, HotseatError):
            raise where
        if isinstance(where, OtherHost):
            self._hosts.sent(where.host, self._model)
            self._at = where
        self._send_to(where)

    def is_turned_away(self, head: ResponseHead) -> bool:
        """Did the host do nothing for it? Else record what it reports about itself, for later requests."""
        if self._at is None or head.is_turned_away:
            return self._at is not None
        if head.is_failed_start:
            self._hosts.failed(self._at.host, self._model)
        if (load := head.queue_length) is not None:
            self._hosts.note_load(self._at.host, self._model, load)
        return False

    def turned_away(self, unproven: str = "") -> None:
        """The host did nothing for it, perhaps because it rejected our proof: try the next one."""
        assert self._at is not None
        if unproven:
            self._hosts.disbelieved(self._at.host, unproven)
        self._hosts.turned_away(self._at.host)
        self.come_back()
        self.find()

    def come_back(self) -> None:
        """The request is over or goes to another host. Safe to call twice."""
        if self._agreeing is not None:
            self._agreeing.cancel()
            self._agreeing = None
        if self._at is not None:
            self._hosts.came_back(self._at.host, self._model)
            self._at = None
