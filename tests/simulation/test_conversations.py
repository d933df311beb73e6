"""What a swap costs a conversation in a simulation, and what keeping it saves."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import msgspec
import pytest

from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.scheduling.commands import Allowance
from hotseat.scheduling.events import PromptProcessed, Transfer
from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.conversations import TOKEN_SIZE, Conversation, Conversations, attempt
from hotseat.simulation.recording import Recording, SeenModel, SeenRequest
from hotseat.simulation.results import Request, Run, Stay, figures, recomputed_s
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import Turns, play
from hotseat.simulation.trace import Closed, Memory, Model, Open, Prompt, Step, Trace

A = Model("A", load=10.0, slots=2, size=20.0, compute_rate=1000.0)
B = Model("B", load=10.0, slots=2, size=20.0, compute_rate=500.0)
AMPLE = Allowance(within_s=1000.0, least_tokens=1, token_s=0.0)


def alternating(*models: Model) -> Trace:
    """A client that asks two models in turn, in a conversation of 8,000 tokens and more with each."""
    turns = [Prompt(8000, 0, 200), *(Prompt(300, 8200 + 500 * n, 200) for n in range(5))]
    steps = chain.from_iterable((Step(1.0, model.name, 3.0, prompt) for model in models) for prompt in turns)
    return Trace(models, (Closed("agent", tuple(steps)),), Memory({"gpu0": 24.0}))


def run(trace: Trace, *, is_on: bool = False) -> Run:
    models = tuple(msgspec.structs.replace(model, keeps_conversations=is_on) for model in trace.models)
    return play(trace, Turns(Scheduler(catalog_of(replace(trace, models=models)))))


def without_tokens(trace: Trace) -> Trace:
    [client] = trace.clients
    assert isinstance(client, Closed)
    steps = (msgspec.structs.replace(step, prompt=None) for step in client.steps)
    return replace(trace, clients=(Closed(client.client, tuple(steps)),))


def test_a_conversation_that_was_lost_is_computed_again() -> None:
    """Each return to a model takes the known tokens by its rate longer; the first prompts are as recorded."""
    played = run(alternating(A, B))
    known = [8200 + 500 * n for n in range(5)]
    took = [(request.finished or 0.0) - (request.started or 0.0) for request in played.requests]

    assert took[0::2] == pytest.approx([3.0, *(3.0 + tokens / 1000 for tokens in known)])
    assert took[1::2] == pytest.approx([3.0, *(3.0 + tokens / 500 for tokens in known)])
    assert recomputed_s(played) == pytest.approx(sum(known) / 1000 + sum(known) / 500)


def test_conversations_that_are_kept_save_most_of_it() -> None:
    """Saving and restoring takes time, but the client is done much sooner."""
    off, on = run(alternating(A, B)), run(alternating(A, B), is_on=True)

    assert (recomputed_s(on) or 0.0) < 0.1 * (recomputed_s(off) or 0.0)
    assert figures(on).loads == figures(off).loads
    assert figures(on).makespan_s < figures(off).makespan_s - 0.8 * (recomputed_s(off) or 0.0)


def test_saving_is_a_part_of_stopping_and_restoring_of_loading() -> None:
    """So a timeline shows them, and the next load waits for the save."""
    slow = msgspec.structs.replace(A, save_rate=8200 / 0.5, restore_rate=8200 / 2.0)
    first, second, third, *_ = run(alternating(slow, B), is_on=True).stays

    assert first.stopping is not None
    assert first.gone == pytest.approx(first.stopping + 0.5 + slow.stop)
    assert second.asked == first.gone
    assert third.ready == pytest.approx(third.asked + slow.load + 2.0)


def test_without_tokens_keeping_changes_nothing() -> None:
    """A trace without tokens plays as it always did, also where the configuration keeps conversations."""
    trace = without_tokens(alternating(A, B))
    kept = tuple(msgspec.structs.replace(model, keeps_conversations=True) for model in (A, B))
    off, on = run(trace), play(trace, Turns(Scheduler(catalog_of(replace(trace, models=kept)))))

    assert off == on
    assert recomputed_s(off) is None


def test_without_a_rate_nothing_is_computed_again() -> None:
    """Tokens alone do not say how long they take."""
    trace = alternating(*(msgspec.structs.replace(model, compute_rate=None) for model in (A, B)))
    played, plain = run(trace), run(without_tokens(trace))

    assert [(r.started, r.finished) for r in played.requests] == [(r.started, r.finished) for r in plain.requests]
    assert recomputed_s(played) is None


def test_a_process_that_was_not_replaced_has_what_it_had() -> None:
    """With memory for both models nothing is computed again."""
    assert recomputed_s(run(replace(alternating(A, B), memory=Memory({"gpu0": 48.0})))) == 0.0


def test_a_client_that_comes_first_loses_nothing() -> None:
    """What was cached of its first prompt was computed for others: a system prompt, for example."""
    clients = (
        Open("u", 0.0, "A", 1.0, Prompt(900)),
        Open("v", 20.0, "B", 1.0),
        Open("w", 60.0, "A", 1.0, Prompt(9, 900)),
    )

    assert recomputed_s(run(Trace((A, B), clients, Memory({"gpu0": 24.0})))) == 0.0


class Noting(Turns):
    """The production scheduler, and what servers reported it about prompts."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.prompts: list[PromptProcessed] = []
        decide = scheduler.handle

        def handle(event, now):  # type: ignore[no-untyped-def]  # as Turns.handle
            self.prompts += [event] if isinstance(event, PromptProcessed) else []
            return decide(event, now)

        self.handle = handle


def test_what_was_recorded_with_swaps_is_simulated_as_it_was() -> None:
    """The time that was lost is taken out of the recording, and a simulation of the same swaps adds it again."""
    trace = alternating(A, B)
    noting = Noting(Scheduler(catalog_of(trace)))
    played = play(trace, noting)
    seen = [SeenModel(model.name, load_s=model.load, slots=model.slots) for model in trace.models]
    recording = Recording(seen, requests=[seen_in(played, prompt) for prompt in noting.prompts])
    again = run(replace(recording.trace(), memory=None))

    assert [model.compute_rate for model in recording.trace().models] == pytest.approx([1000.0, 500.0])
    assert recomputed_s(again) == pytest.approx(recomputed_s(played))
    assert figures(again).mean_s == pytest.approx(figures(played).mean_s)


def seen_in(run: Run, prompt: PromptProcessed) -> SeenRequest:
    request = run.requests[prompt.ticket]
    assert request.started is not None
    assert request.finished is not None
    loads = [stay for stay in run.stays if stay.model == request.model and (stay.ready or 0.0) <= request.started]
    times = request.arrived, request.started, request.finished
    return SeenRequest(request.client, request.model, *times, prompt, len(loads))


# One server


def answered(conversations: Conversations, client: str, prompt: Prompt, now: float) -> PromptProcessed | None:
    request = Request(TicketId(1), client, ModelName("A"), 1.0, now, prompt=prompt)
    reported = conversations.begin(request)
    conversations.end(request, now)
    return reported


def server(*clients: tuple[str, int]) -> Conversations:
    """Its clients came one after the other, with so many tokens."""
    conversations = Conversations(A)
    for now, (client, tokens) in enumerate(clients):
        answered(conversations, client, Prompt(tokens), now)
    return conversations


def test_a_server_reports_what_it_computed() -> None:
    """After a new start it computes the known tokens too, and none of them was cached."""
    conversations = server(("ann", 4000))
    kept = answered(conversations, "ann", Prompt(500, 4000, 60), 1.0)
    conversations.gone()
    lost = answered(conversations, "ann", Prompt(300, 4560, 70), 2.0)

    assert kept == PromptProcessed(TicketId(1), computed=500, cached=4000, took_s=0.5, generated=60)
    assert lost == PromptProcessed(TicketId(1), computed=4860, cached=0, took_s=4.86, generated=70)


def test_what_was_restored_is_not_computed() -> None:
    """Only what the conversation has in addition to what was saved."""
    conversations = server(("ann", 4000))
    conversations.save(AMPLE, 1.0)
    conversations.gone()
    conversations.restore(AMPLE)
    reported = answered(conversations, "ann", Prompt(100, 4500), 2.0)

    assert reported is not None
    assert (reported.computed, reported.cached) == (600, 4000)


def test_as_many_conversations_are_saved_as_there_are_slots() -> None:
    """Those that were used last, the longest first."""
    done = server(("ann", 9000), ("bob", 1000), ("eve", 2000)).save(AMPLE, 5.0).done

    assert [each.client for each in done] == ["eve", "bob"]


def test_what_was_not_used_since_is_not_saved_again() -> None:
    """Its file is still there, and is restored after the next start too."""
    conversations = server(("ann", 4000), ("bob", 3000))
    conversations.save(AMPLE, 5.0)
    for now in (6.0, 7.0):
        conversations.gone()
        restored = conversations.restore(AMPLE)
        answered(conversations, "bob", Prompt(10, 3000), now)
        saved = conversations.save(AMPLE, now)

        assert {each.client for each in restored.done} == {"ann", "bob"}
        assert [each.client for each in saved.done] == ["bob"]


LONG, SHORT, TINY = (Conversation(name, tokens, 0.0) for name, tokens in (("u", 5000), ("v", 1000), ("w", 50)))


@pytest.mark.parametrize(
    ("allowance", "done", "took_s"),
    [
        (Allowance(9.0, 1, 0.001), (LONG, SHORT, TINY), 6.05),
        (Allowance(9.0, 64, 0.001), (LONG, SHORT), 6.0),
        (Allowance(2.0, 64, 0.001), (SHORT,), 1.0),
    ],
)
def test_what_is_worth_it_and_has_time_is_transferred(
    allowance: Allowance, done: tuple[Conversation, ...], took_s: float
) -> None:
    """Short conversations are left out, and so are those whose expected time is longer than what is left."""
    outcome = attempt([LONG, SHORT, TINY], 1000.0, allowance)

    assert outcome.done == done
    assert outcome.transfers == tuple(
        Transfer(each.tokens, each.tokens * TOKEN_SIZE, each.tokens / 1000) for each in done
    )
    assert outcome.took_s == pytest.approx(took_s)
    assert outcome.unfinished is None


def test_a_transfer_that_takes_longer_than_expected_ends_with_the_time() -> None:
    """What was done until then counts; the scheduler learns what was not."""
    outcome = attempt([SHORT, LONG, TINY], 1000.0, Allowance(3.0, 1, 0.0001))

    assert outcome.done == (SHORT,)
    assert outcome.took_s == 3.0
    assert outcome.unfinished == Transfer(5000, 0, 2.0)


def test_a_save_that_was_too_slow_is_not_tried_as_long_again() -> None:
    """The scheduler learns from simulated servers: it gives up where saving takes longer than computing again."""
    slow = msgspec.structs.replace(A, save_rate=100.0)
    played = run(alternating(slow, B), is_on=True)
    stops = [stop_s(stay) for stay in played.stays if stay.model == "A" and stay.gone is not None]

    assert stops[0] == pytest.approx(slow.stop + 1.0)
    assert stops[-1] == pytest.approx(slow.stop)


def stop_s(stay: Stay) -> float:
    assert stay.stopping is not None
    assert stay.gone is not None
    assert stay.launch > LaunchId(0)
    return stay.gone - stay.stopping
