"""Where requests belong, and what is kept of them when they end."""

from __future__ import annotations

from tests.support.fake_launcher import spec
from tests.support.traces import KeptTraces, traced

from hotseat.dispatch.journal import Entry
from hotseat.identifiers import Address, LaunchId, ModelName, Upstream
from hotseat.scheduling.commands import StartUpstream
from hotseat.scheduling.events import ClockReached, UpstreamReady
from hotseat.tracing.swap_steps import SwapSteps
from hotseat.tracing.traceparent import Parent
from hotseat.tracing.tracer import Tracer

BETA = ModelName("beta")


def tracer(queue: KeptTraces, steps: SwapSteps | None = None, *, samples: bool = True) -> Tracer:
    return Tracer(steps or SwapSteps(lambda: 0.0), queue, lambda trace_id, parent: samples, lambda: 1_000_000_000_000)


def loaded_beta() -> SwapSteps:
    """Beta was loaded from 101 to 103."""
    now = [101.0]
    steps = SwapSteps(lambda: now[0])
    steps.watch(Entry(1, 0.0, ClockReached(), (StartUpstream(BETA, LaunchId(1), spec("beta"), "started"),)))
    now[0] = 103.0
    steps.watch(Entry(2, 0.0, UpstreamReady(BETA, LaunchId(1), Upstream(Address("h", 1), 1)), ()))
    return steps


def test_a_request_without_a_trace() -> None:
    """It begins one, with new ids each time."""
    begun = [tracer(KeptTraces()).begin(value) for value in (None, b"nonsense")]

    assert [each.parent for each in begun] == [None, None]
    assert len({number for each in begun for number in (each.trace_id, each.root_id, each.forward_id)}) == 6


def test_a_request_of_a_trace() -> None:
    """It belongs to the trace of its client."""
    begun = tracer(KeptTraces()).begin(b"00-%032x-%016x-01" % (7, 4711))

    assert (begun.trace_id, begun.parent) == (7, Parent(7, 4711, is_sampled=True))


def test_a_request_that_waited_for_a_load() -> None:
    """The steps of its wait, and the time of day."""
    queue = KeptTraces()
    tracer(queue, loaded_beta()).finished(traced(reason="waited for beta to load"), now=105.0)
    [kept] = queue.requests

    assert [step.name for step in kept.steps] == ["start"]
    assert kept.epoch_ns == 895_000_000_000
    assert kept.reason == "waited for beta to load"


def test_a_request_that_did_not_wait() -> None:
    """A load that ended at the moment of its arrival was not for it."""
    queue = KeptTraces()
    tracer(queue, loaded_beta()).finished(traced(began=103.0), now=105.0)

    assert queue.requests[0].steps == ()


def test_a_request_that_was_never_granted() -> None:
    """The steps until it ended."""
    queue = KeptTraces()
    tracer(queue, loaded_beta()).finished(traced(granted_at=None), now=105.0)

    assert [step.name for step in queue.requests[0].steps] == ["start"]


def test_a_trace_that_is_not_recorded() -> None:
    """The upstream is told."""
    begun = tracer(KeptTraces(), samples=False).begin(None)

    assert not begun.is_sampled
    assert begun.line.endswith(b"-00\r\n")


def test_traces_that_were_dropped() -> None:
    """As many as the queue has counted."""
    queue = KeptTraces()
    queue.dropped = 4

    assert tracer(queue).dropped == 4
