"""Replays the clients of a trace. All three kinds are steps in order with a number of outstanding requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from hotseat.simulation.trace import Client, Closed, Job, Open, Pool, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotseat.identifiers import Instant


class Replay:
    def __init__(self, client: str, start: Instant, width: int, steps: Iterable[Step]) -> None:
        self.client = client
        self._start = start
        self._width = width
        self._left = iter(steps)

    def begin(self) -> list[tuple[Instant, Job]]:
        """The first requests and their times."""
        return [asked for _ in range(self._width) for asked in self.after(self._start)]

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        """After the end of a request: the next one, after its think time, if any."""
        step = next(self._left, None)
        if step is not None:
            yield finished + step.think, Job(step.model, step.service)


def replays(clients: Sequence[Client]) -> list[Replay]:
    return [replay_of(client) for client in clients]


def replay_of(client: Client) -> Replay:
    match client:
        case Open():
            return Replay(client.client, client.at, 1, [Step(0.0, client.model, client.service)])
        case Closed():
            return Replay(client.client, client.start, 1, client.steps)
        case Pool():
            steps = (Step(0.0, job.model, job.service) for job in client.jobs)
            return Replay(client.client, client.start, client.width, steps)
        case _:
            assert_never(client)
