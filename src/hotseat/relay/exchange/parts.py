"""The parts of an exchange as they see each other: its states, its target, and the exchange itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.catalog.spec import Timeouts
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Address, Instant, ModelName, Seconds, Upstream
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.accounting import Accounting
    from hotseat.relay.exchange.client_side import Client
    from hotseat.relay.exchange.early_stream import EarlyStream
    from hotseat.relay.exchange.framers import Framer
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.response_head import ResponseHead
    from hotseat.relay.upstream.connection import UpstreamConnection


class State:
    __slots__ = ()

    @property
    def is_event_stream(self) -> bool:
        """Does an event stream run?"""
        return False

    def cancel(self) -> None:
        """Stop what it waits for, and the upstream's work. Safe to call twice."""

    def last_piece(self) -> object:
        """The last data from the upstream; None if there is none."""
        return None

    def client_is_full(self) -> None: ...
    def client_is_writable(self) -> None: ...
    def from_client(self, data: bytes) -> None:
        raise AssertionError(f"{type(self).__name__} takes no bytes from the client")


class Target(Protocol):
    """Where a request goes."""

    model: ModelName | None
    """The model that the request counts for; None: none."""
    timeouts: Timeouts
    limit_s: Seconds | None
    """For which one request may use it; None: no limit."""

    @property
    def label(self) -> str: ...
    @property
    def hint(self) -> str:
        """Where to look if it fails."""
        ...

    @property
    def devices(self) -> int:
        """How many devices it uses."""
        ...

    def start(self, exchange: Parts) -> None:
        """Ask for a lease, or connect at once; raises HotseatError."""
        ...

    def head(self, exchange: Parts, address: Address) -> bytes:
        """The head that it gets."""
        ...

    def limit_use(self, exchange: Parts) -> None:
        """Start the timer for `limit_s`."""
        ...

    def responded(self, exchange: Parts, head: ResponseHead) -> bool:
        """A response began that tells of a fleet host; True if that host did nothing for the request."""
        ...

    def was_not_delivered(self, exchange: Parts) -> None:
        """The connection was dead before the request reached the other side."""
        ...

    def unreachable(self, exchange: Parts, problem: str) -> None:
        """No connection could be opened."""
        ...


class Parts(Protocol):
    """The exchange, as its states and its target use it."""

    context: Context
    client: Client
    request: Request
    peer: str
    target: Target
    accounting: Accounting
    upstream: Upstream | None
    """The server that the lease is for."""
    early: EarlyStream | None
    framer: Framer | None
    state: State
    was_sent: bool
    has_begun: bool
    """Has the client got the beginning of a response?"""

    def connect(self, address: Address) -> None: ...
    def send(self, connection: UpstreamConnection) -> None: ...
    def run(self, step: Callable[[], None]) -> None:
        """Run a step; a bug of ours ends the exchange."""
        ...

    def finished(self, status: int, now: Instant, pieces: Sequence[bytes]) -> None:
        """The response is complete: give everything back."""
        ...

    def fail(self, error: HotseatError) -> None: ...
    def crashed(self, problem: Exception) -> None: ...

    # Called by the dispatcher
    def granted(self, upstream: Upstream, because: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...
    def cut(self, error: HotseatError) -> None: ...
