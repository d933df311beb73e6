"""What is asked at present and what was asked lately: times, statuses and paths, never what was said.

Bounded in memory. A finished request costs one small tuple; everything else is made when somebody looks.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import ClientId, ModelName, Seconds, TicketId

KEPT = 1000
LONGEST_PATH = 200


class Asked(Protocol):
    """Of a request's head only this is kept: other fields may hold secrets."""

    method: bytes
    target: bytes


class Ledger(Protocol):
    """Counts what has ended."""

    def refused(self, code: str) -> None: ...
    def counted(self, model: ModelName, tokens: Tokens, per_second: float | None) -> None: ...

    def finished(
        self, model: ModelName, status: int, waited_s: Seconds, first_byte_s: Seconds | None, seconds: Seconds
    ) -> None: ...


class Tokens(NamedTuple):
    """As the model server counted them; None where it did not say."""

    prompt: int | None
    completion: int | None
    per_second: float | None
    """How quickly the server says that it generated."""

    def rate(self, seconds: Seconds) -> float | None:
        """Tokens per second: the server's own figure, else over the time that it had the request, prompt included."""
        if self.per_second is not None or not self.completion or seconds <= 0:
            return self.per_second
        return self.completion / seconds


class Finished(NamedTuple):
    n: int
    at: float
    """When it ended; wall-clock time, for people."""
    model: ModelName
    client: ClientId
    method: bytes
    target: bytes
    status: int
    """Towards the client; 499 where it hung up, 0 where no answer began."""
    waited_s: Seconds
    first_byte_s: Seconds | None
    seconds: Seconds
    id: bytes
    """What it is called, by the client or by us."""
    tokens: Tokens | None = None

    @property
    def tokens_per_s(self) -> float | None:
        return None if self.tokens is None else self.tokens.rate(self.seconds - self.waited_s)


Row: TypeAlias = (
    "tuple[float, ModelName, ClientId, bytes, bytes, int, Seconds, Seconds | None, Seconds, bytes, Tokens | None]"
)
"""The same without its number, as a plain tuple: that is made in a third of the time."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A request that has not ended, and how long what it did has taken so far."""

    ticket: TicketId
    id: bytes
    model: ModelName
    client: ClientId
    method: bytes
    target: bytes
    waited_s: Seconds
    first_byte_s: Seconds | None
    """None: nothing was answered yet."""
    seconds: Seconds
    is_waiting: bool


class Activity:
    """The last finished requests, numbered; hands each on to the ledger that counts them."""

    def __init__(self, ledger: Ledger, wall_clock: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self.refused = ledger.refused
        self._wall_clock = wall_clock
        self._finished: deque[Row] = deque(maxlen=KEPT)
        self.n = 0
        self.rates: dict[ModelName, float] = {}
        """Tokens per second of each model's last answer that had any."""

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
    ) -> None:
        self._ledger.finished(model, status, waited_s, first_byte_s, seconds)
        if tokens is not None:
            self._count(model, tokens, tokens.rate(seconds - waited_s))
        self.n += 1
        at, method, target = self._wall_clock(), asked.method, asked.target[:LONGEST_PATH]
        self._finished.append(
            (at, model, client, method, target, status, waited_s, first_byte_s, seconds, request_id, tokens)
        )

    def _count(self, model: ModelName, tokens: Tokens, per_second: float | None) -> None:
        self._ledger.counted(model, tokens, per_second)
        if per_second is not None:
            self.rates[model] = per_second

    def recent(self, after: int = 0) -> list[Finished]:
        """Those that ended after number `after` and are still kept, oldest first."""
        first = self.n - len(self._finished) + 1
        return [Finished(n, *row) for n, row in enumerate(self._finished, first) if n > after]
