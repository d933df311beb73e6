"""Replays the clients of a trace: steps in order with a number of outstanding requests, or one burst after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, assert_never

from hotseat.simulation.trace import Bursts, Client, Closed, Job, Open, Pool, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotseat.identifiers import Instant
    from hotseat.simulation.trace import Burst


class Replay(Protocol):
    client: str

    def begin(self) -> list[tuple[Instant, Job]]:
        """The first requests and their times."""

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        """After the end of a request: the next ones, after their think time, if any."""


class StepReplay:
    def __init__(self, client: str, start: Instant, width: int, steps: Iterable[Step]) -> None:
        self.client = client
        self._start = start
        self._width = width
        self._left = iter(steps)

    def begin(self) -> list[tuple[Instant, Job]]:
        return [asked for _ in range(self._width) for asked in self.after(self._start)]

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        step = next(self._left, None)
        if step is not None:
            yield finished + step.think, Job(step.model, step.service, step.prompt)


class BurstReplay:
    def __init__(self, client: str, start: Instant, bursts: Iterable[Burst]) -> None:
        self.client = client
        self._start = start
        self._left = iter(bursts)
        self._unanswered = 0

    def begin(self) -> list[tuple[Instant, Job]]:
        return list(self._next(self._start))

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        self._unanswered -= 1
        if not self._unanswered:
            yield from self._next(finished)

    def _next(self, now: Instant) -> Iterator[tuple[Instant, Job]]:
        burst = next(self._left, None)
        if burst is not None:
            self._unanswered = len(burst.jobs)
            yield from ((now + burst.think, job) for job in burst.jobs)


def replays(clients: Sequence[Client]) -> list[Replay]:
    return [replay_of(client) for client in clients]


def replay_of(client: Client) -> Replay:
    match client:
        case Open():
            return StepReplay(client.client, client.at, 1, [Step(0.0, client.model, client.service, client.prompt)])
        case Closed():
            return StepReplay(client.client, client.start, 1, client.steps)
        case Bursts():
            return BurstReplay(client.client, client.start, client.bursts)
        case Pool():
            steps = (Step(0.0, job.model, job.service, job.prompt) for job in client.jobs)
            return StepReplay(client.client, client.start, client.width, steps)
        case _:
            assert_never(client)
