"""The simulator: how long things take, and the order of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.catalog import Policy
from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.scheduling.commands import Cause, Confirm, StartUpstream, StopUpstream, WakeAt
from hotseat.scheduling.events import ClockReached, RequestArrived
from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import Standstill, Turns, play
from hotseat.simulation.trace import Burst, Bursts, Closed, Job, Memory, Model, Open, Pool, Step, Trace

if TYPE_CHECKING:
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event
    from hotseat.simulation.results import Run
    from hotseat.simulation.trace import Client

A, B = Model("A", load=10.0, stop=1.0, slots=2, size=20.0), Model("B", load=4.0, stop=2.0, slots=1, size=20.0)


ONE_REQUEST = Trace((A,), (Open("u", 0.0, "A", 1.0),))
NAME, LAUNCH = ModelName("A"), LaunchId(1)
START = StartUpstream(NAME, LAUNCH, catalog_of(ONE_REQUEST).models[NAME], "")
STOP = StopUpstream(NAME, LAUNCH, Cause.OPERATOR, "")


def run(*clients: Client, gib: float = 24, loads_at_a_time: int = 1, **policy: float) -> Run:
    trace = Trace((A, B), clients, Memory({"gpu0": gib}))
    catalog = catalog_of(trace, Policy(**policy))  # type: ignore[arg-type]  # knobs are ints and floats
    return play(trace, Turns(Scheduler(catalog)), loads_at_a_time)


def times(run: Run) -> list[tuple[float, float | None, float | None]]:
    return [(request.arrived, request.started, request.finished) for request in run.requests]


def test_a_request_waits_for_its_load() -> None:
    """A cold model takes its load time, then the service time."""
    assert times(run(Open("u", 5.0, "A", 3.0))) == [(5.0, 15.0, 18.0)]


def test_a_server_works_on_as_many_as_it_has_slots() -> None:
    """The third request of a server with two slots begins when the first ends."""
    played = run(Open("u", 0.0, "A", 3.0), Open("v", 0.0, "A", 5.0), Open("w", 0.0, "A", 1.0))

    assert times(played) == [(0.0, 10.0, 13.0), (0.0, 10.0, 15.0), (0.0, 13.0, 14.0)]


def test_a_burst_ends_with_its_last_response() -> None:
    """Two requests at once on two slots; the next one follows a second after the longer of them."""
    played = run(Bursts("lead", (Burst(0.0, (Job("A", 3.0), Job("A", 5.0))), Burst(1.0, (Job("A", 2.0),)))))

    assert times(played) == [(0.0, 10.0, 13.0), (0.0, 10.0, 15.0), (16.0, 16.0, 18.0)]


def test_a_swap_takes_a_stop_and_a_load() -> None:
    """Memory is free when the process is gone."""
    played = run(Open("u", 0.0, "A", 3.0), Open("v", 20.0, "B", 1.0))

    assert times(played)[1] == (20.0, 25.0, 26.0)
    assert [(stay.asked, stay.ready, stay.stopping, stay.gone) for stay in played.stays] == [
        (0.0, 10.0, 20.0, 21.0),
        (21.0, 25.0, None, None),
    ]


def test_draining_is_seen() -> None:
    """A model that has to leave takes no request after the end of its turn."""
    played = run(Open("u", 0.0, "A", 30.0), Open("v", 20.0, "B", 1.0), patience=0)

    assert played.stays[0].draining == 20.0
    assert played.stays[0].stopping == 40.0


def test_loads_share_one_disk() -> None:
    """Two models that fit together load one after the other, or side by side where that is said."""
    both = (Open("u", 0.0, "A", 1.0), Open("v", 0.0, "B", 1.0))

    assert [stay.ready for stay in run(*both, gib=48).stays] == [10.0, 14.0]
    assert [stay.ready for stay in run(*both, gib=48, loads_at_a_time=2).stays] == [10.0, 4.0]


def test_a_closed_client_thinks_after_its_answer() -> None:
    """Its next request comes when it has its answer and has thought about it."""
    played = run(Closed("c", (Step(1.0, "A", 3.0), Step(0.5, "A", 2.0)), start=2.0))

    assert times(played) == [(3.0, 13.0, 16.0), (16.5, 16.5, 18.5)]


def test_a_pool_keeps_its_width() -> None:
    """As one job ends the next is asked for."""
    played = run(Pool("p", 2, (Job("A", 3.0), Job("A", 5.0), Job("A", 1.0))))

    assert times(played) == [(0.0, 10.0, 13.0), (0.0, 10.0, 15.0), (13.0, 13.0, 14.0)]


def test_whoever_is_refused_goes_on() -> None:
    """A full line is no end: the client asks for its next thing, and the request counts as not served."""
    played = run(Open("u", 0.0, "A", 1.0), Closed("c", (Step(1.0, "A", 1.0), Step(20.0, "A", 1.0))), max_queue=1)

    assert times(played) == [(0.0, 10.0, 11.0), (1.0, None, None), (21.0, 21.0, 22.0)]


def test_the_same_trace_gives_the_same_run() -> None:
    """Nothing is left to chance."""
    clients = [Closed(f"c{n}", tuple(Step(0.3 * n, "AB"[n % 2], 2.0) for _ in range(20))) for n in range(4)]

    assert run(*clients) == run(*clients)


class Scripted:
    """A decider that answers each kind of fact with what the test says."""

    def __init__(self, answers: dict[type[Event], list[Command]]) -> None:
        self._answers = answers

    def handle(self, event: Event, now: float) -> list[Command]:
        return self._answers.get(type(event), [])

    def draining_since(self, model: ModelName, now: float) -> float | None:
        return None


def test_a_decider_that_goes_round_in_circles_is_found_out() -> None:
    """Time that stands still is an error, not a program that never ends."""
    with pytest.raises(Standstill):
        play(ONE_REQUEST, Scripted({RequestArrived: [WakeAt(0.0)], ClockReached: [WakeAt(0.0)]}))


def test_a_flood_of_one_moment_is_no_standstill() -> None:
    """Thousands may ask at the same time."""
    played = run(Pool("p", 3000, tuple(Job("A", 0.001) for _ in range(3000))), max_queue=5000)

    assert len(played.requests) == 3000
    assert all(request.finished for request in played.requests)


def test_a_load_that_is_given_up_never_becomes_ready() -> None:
    """Its process takes its time to stop, and the disk is free for the next."""
    script: dict[type[Event], list[Command]] = {RequestArrived: [START, WakeAt(4.0)], ClockReached: [STOP]}
    [stay] = play(ONE_REQUEST, Scripted(script)).stays

    assert (stay.asked, stay.ready, stay.stopping, stay.gone) == (0.0, None, 4.0, 5.0)


def test_an_operators_command_is_a_mistake() -> None:
    """A simulation has no operator, so there is nothing to confirm."""
    with pytest.raises(AssertionError, match="only requests, loads and stops"):
        play(ONE_REQUEST, Scripted({RequestArrived: [Confirm(TicketId(0), NAME, "")]}))
