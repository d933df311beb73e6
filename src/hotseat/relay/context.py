"""What connections and exchanges share. It knows neither: imports point from them to here."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from hotseat.relay.access.wrong_keys import WrongKeys
from hotseat.relay.downstream.admission_cache import HeadCache
from hotseat.relay.downstream.body_limits import Bodies
from hotseat.relay.http.request_id import numbered
from hotseat.relay.upstream.pool import Pool

if TYPE_CHECKING:
    from hotseat.activity.recent import Asked, Tokens
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Address, ClientId, ModelName, Seconds
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.exchange.fleet_hop import Hosts
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.body import Body


class ActivityLog(Protocol):
    """Records finished requests, and counts refused ones."""

    def refused(self, code: str) -> None: ...

    def finished(
        self,
        model: ModelName,
        status: int,
        waited_s: Seconds,
        first_byte_s: Seconds | None,
        seconds: Seconds,
        client: ClientId,
        asked: Asked,
        request_id: bytes,
        tokens: Tokens | None,
    ) -> None: ...


class Context:
    def __init__(self, dispatcher: Dispatcher, policy: Policy, management: Address, activity: ActivityLog) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.later = loop.call_later
        self.dispatcher = dispatcher
        self.policy = policy
        """Replaced as a whole when the configuration changes."""
        self.management = management
        self.activity = activity
        self.pool = Pool()
        self.hosts: Hosts | None = None
        """The fleet; None if this host is in none."""
        self.new_id = numbered()
        self.scheme = b"http"
        self.is_draining = False
        self.bodies = Bodies()
        self.peer_requests: Counter[ModelName] = Counter()
        """Requests at models of peers."""
        self.wrong_keys = WrongKeys(self.now, self.later)
        self.heads = HeadCache(policy, dispatcher.catalog)

    def check_space(self, body: Body) -> None:
        """Count what this body takes; raises if all of them together take too much."""
        self.bodies.count(body)
        self.bodies.check(body, self.policy.limits, is_proxy=body.is_spooled and self.policy.trusts(body.sender))

    def forget(self, request: Request) -> None:
        """Release a request that ends before it began: its client left, or the rest of it is not read."""
        self.bodies.forget(request.body)
        if request.key_use is not None:
            request.key_use.ended(self.now())
