"""Requests in progress and recently finished ones: times, statuses and paths, never their content.

Bounded in memory. A finished request costs one small tuple; the rest is computed when it is read.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import ClientId, HostName, ModelName, Seconds, TicketId

KEPT = 1000
LONGEST_PATH = 200


class Asked(Protocol):
    """Only this part of a request's head is kept: other fields may contain secrets."""

    method: bytes
    target: bytes


class Ledger(Protocol):
    """Counts finished requests."""

    def refused(self, code: str) -> None: ...
    def counted(self, model: ModelName, tokens: Tokens, per_second: float | None) -> None: ...

    def finished(
        self, model: ModelName, status: int, waited_s: Seconds, first_byte_s: Seconds | None, seconds: Seconds
    ) -> None: ...


class Tokens(NamedTuple):
    """As the model server reports them; None: not reported."""

    prompt: int | None
    """With those that were cached."""
    completion: int | None
    per_second: float | None
    """Generation speed as the server reports it."""
    cached: int | None = None
    """Tokens of the prompt that the server did not compute, because it still had them."""
    prompt_s: Seconds | None = None
    """How long the server took to compute the others."""

    def rate(self, seconds: Seconds) -> float | None:
        """Tokens per second: the server's figure, else over the time it had the request, prompt included."""
        if self.per_second is not None or not self.completion or seconds <= 0:
            return self.per_second
        return self.completion / seconds


class Finished(NamedTuple):
    n: int
    at: float
    """When it ended; wall-clock time for display."""
    model: ModelName
    client: ClientId
    method: bytes
    target: bytes
    status: int
    """Sent to the client; 499 if it disconnected, 0 if no response began."""
    waited_s: Seconds
    first_byte_s: Seconds | None
    seconds: Seconds
    id: bytes
    """Set by the client or by hotseat."""
    tokens: Tokens | None = None
    why: str = ""
    """What it waited for, if it waited."""

    @property
    def tokens_per_s(self) -> float | None:
        return None if self.tokens is None else self.tokens.rate(self.seconds - self.waited_s)


Row: TypeAlias = (
    "tuple[float, ModelName, ClientId, bytes, bytes, int, Seconds, Seconds | None, Seconds, bytes, Tokens | None, str]"
)
"""The same without `n`, as a plain tuple, which takes a third of the time to create."""


class InProgress(Struct, frozen=True):
    """A request in progress, with its times so far."""

    ticket: TicketId
    id: bytes
    model: ModelName
    client: ClientId
    method: bytes
    target: bytes
    waited_s: Seconds
    first_byte_s: Seconds | None
    """None: no response yet."""
    seconds: Seconds
    is_waiting: bool
    host: HostName | None = None
    """The host of the fleet that it was forwarded to; None: it is served here."""
    from_host: HostName | None = None
    """The host of the fleet that forwarded it; None: a client sent it here."""


class Activity:
    """The last finished requests, numbered; reports each to the ledger."""

    def __init__(self, ledger: Ledger, wall_clock: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self.refused = ledger.refused
        self._wall_clock = wall_clock
        self._finished: deque[Row] = deque(maxlen=KEPT)
        self.n = 0
        self.rates: dict[ModelName, float] = {}
        """Tokens per second of each model's last response that had any."""

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
        tokens: Tokens | None = None,
        why: str = "",
    ) -> None:
        self._ledger.finished(model, status, waited_s, first_byte_s, seconds)
        if tokens is not None:
            self._count(model, tokens, tokens.rate(seconds - waited_s))
        self.n += 1
        at, method, target = self._wall_clock(), asked.method, asked.target[:LONGEST_PATH]
        self._finished.append(
            (at, model, client, method, target, status, waited_s, first_byte_s, seconds, request_id, tokens, why)
        )

    def _count(self, model: ModelName, tokens: Tokens, per_second: float | None) -> None:
        self._ledger.counted(model, tokens, per_second)
        if per_second is not None:
            self.rates[model] = per_second

    def recent(self, after: int = 0) -> list[Finished]:
        """Requests that ended after number `after` and are still kept, oldest first."""
        first = self.n - len(self._finished) + 1
        return [Finished(n, *row) for n, row in enumerate(self._finished, first) if n > after]
