"""Where a request goes, chosen once: hotseat itself, a local model, a model of a peer, or another host of the fleet.

A target knows its timeouts, the head it gets, and what happens if it turns the request away or cannot be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import DEFAULT_TIMEOUTS, HOST_TIMEOUTS
from hotseat.errors import UpstreamError
from hotseat.relay.exchange.upstream_head import host_head, upstream_head

if TYPE_CHECKING:
    from hotseat.catalog.named_models import RemoteModel
    from hotseat.catalog.spec import Timeouts
    from hotseat.fleet.route import OtherHost
    from hotseat.identifiers import Address, ModelName, Seconds
    from hotseat.relay.exchange.parts import Parts
    from hotseat.relay.http.response_head import ResponseHead


class BaseTarget:
    """What most targets have in common."""

    __slots__ = ("limit_s", "model", "timeouts")

    def __init__(
        self, model: ModelName | None = None, timeouts: Timeouts = DEFAULT_TIMEOUTS, limit_s: Seconds | None = None
    ) -> None:
        self.model = model
        self.timeouts = timeouts
        self.limit_s = limit_s

    @property
    def label(self) -> str:
        return self.model or "hotseat's own API"

    @property
    def hint(self) -> str:
        return ""

    @property
    def devices(self) -> int:
        return 1

    def head(self, exchange: Parts, address: Address) -> bytes:
        return upstream_head(exchange.context, exchange.request, address, exchange.peer)

    def limit_use(self, exchange: Parts) -> None:
        raise AssertionError("only local models have a limit")

    def responded(self, exchange: Parts, head: ResponseHead) -> bool:
        return False

    def was_not_delivered(self, exchange: Parts) -> None:
        """It is sent again to the same server, so nothing changes."""

    def unreachable(self, exchange: Parts, problem: str) -> None:
        exchange.fail(UpstreamError(f"{self.label} is unreachable: {problem}."))


class ManagementApi(BaseTarget):
    __slots__ = ()

    def start(self, exchange: Parts) -> None:
        exchange.connect(exchange.context.management)


class PeerModel(BaseTarget):
    """A peer is always available, so no lease is needed."""

    __slots__ = ("_remote",)

    def __init__(self, remote: RemoteModel) -> None:
        super().__init__(remote.name, remote.timeouts)
        self._remote = remote

    def start(self, exchange: Parts) -> None:
        exchange.request.address_peer(self._remote)
        exchange.accounting.sent_to_peer(self._remote.name)
        exchange.connect(self._remote.address)

    def head(self, exchange: Parts, address: Address) -> bytes:
        return upstream_head(exchange.context, exchange.request, address, exchange.peer, self._remote.api_key)


class FleetHost(BaseTarget):
    """Another host applies its own limits when the server's turn comes: requests may queue there first."""

    __slots__ = ("_model", "_where")

    def __init__(self, model: ModelName, where: OtherHost) -> None:
        super().__init__(model, HOST_TIMEOUTS)
        self._model = model
        self._where = where

    @property
    def label(self) -> str:
        return f"{self._model} on {self._where.host}"

    def start(self, exchange: Parts) -> None:
        exchange.accounting.granted_at = exchange.context.now()
        exchange.connect(self._where.address)

    def head(self, exchange: Parts, address: Address) -> bytes:
        return host_head(exchange.context, exchange.request, self._where, exchange.peer, self._model)

    def responded(self, exchange: Parts, head: ResponseHead) -> bool:
        assert exchange.accounting.hop is not None
        if not head.is_turned_away:
            exchange.accounting.hop.answered(head)
        return head.is_turned_away

    def was_not_delivered(self, exchange: Parts) -> None:
        exchange.was_sent = False  # so another host may serve it

    def unreachable(self, exchange: Parts, problem: str) -> None:
        if exchange.was_sent:
            return super().unreachable(exchange, problem)
        assert exchange.accounting.hop is not None
        return exchange.accounting.hop.turned_away()


MANAGEMENT_API = ManagementApi()
