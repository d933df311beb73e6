"""A recording becomes a trace that behaves as the traffic did, apart from the swaps that happened while it was made."""

from __future__ import annotations

import pytest

from hotseat.identifiers import TicketId
from hotseat.scheduling.events import PromptProcessed
from hotseat.scheduling.scheduler import Scheduler as Turntaker
from hotseat.simulation.recording import GIB, Recording, SeenModel, SeenRequest, compute_rate, recorded_jobs
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import Turns, play
from hotseat.simulation.trace import (
    Closed,
    Group,
    Job,
    Matrix,
    Memory,
    Model,
    Open,
    Prompt,
    Scheduler,
    Step,
    parse,
    write,
)

QWEN, GEMMA = SeenModel("qwen", slots=4, memory={"gpu0": 20 * GIB}), SeenModel("gemma", load_s=7.0)


def recording(*requests: SeenRequest, **seen: object) -> Recording:
    return Recording([QWEN, GEMMA], requests=list(requests), **seen)  # type: ignore[arg-type]  # any of its fields


def test_a_client_that_waits_for_answers_is_a_closed_loop() -> None:
    """Its think time is what passed between an answer and the next question; time begins with the first arrival."""
    found = recording(
        SeenRequest("10.0.0.7", "qwen", 100.0, 110.0, 113.0), SeenRequest("10.0.0.7", "gemma", 113.5, 113.5, 115.0)
    ).trace()

    assert found.clients == (Closed("c1", (Step(0.0, "qwen", 3.0), Step(0.5, "gemma", 1.5)), start=0.0),)


def test_a_client_that_does_not_wait_is_open() -> None:
    """One overlap shows that it does not wait; then its times are kept."""
    found = recording(
        SeenRequest("ann", "qwen", 100.0, 100.0, 103.0),
        SeenRequest("ann", "qwen", 102.0, 102.0, 103.0),
        SeenRequest("ann", "qwen", 110.0, 110.0, 111.0),
    ).trace()

    assert found.clients == (Open("c1", 0.0, "qwen", 3.0), Open("c1", 2.0, "qwen", 1.0), Open("c1", 10.0, "qwen", 1.0))


def test_one_request_shows_no_loop() -> None:
    """It is unknown whether its client waits, so it is replayed at its time."""
    found = recording(SeenRequest("ann", "qwen", 5.0, 5.0, 6.0)).trace()

    assert found.clients == (Open("c1", 0.0, "qwen", 1.0),)


def test_nobody_is_named() -> None:
    """Addresses, keys and names of people stay out of a file that is passed around."""
    requests = [SeenRequest(name, "qwen", at, at, at + 1.0) for at, name in enumerate(("10.0.0.7", "ann@example.org"))]

    assert [client.client for client in recording(*requests).trace().clients] == ["c1", "c2"]
    assert "ann" not in write(recording(*requests).trace())


def test_loads_and_stops_are_as_measured() -> None:
    """Measured while recording, else known before, else the mean of the others."""
    asked = [SeenRequest("u", name, 0.0, 1.0, 2.0) for name in ("qwen", "gemma")]
    measured = recording(*asked, loads={"qwen": [10.0, 12.0]}, stops={"qwen": [0.5]}).trace()
    known = recording(*asked).trace()

    assert [(model.load, model.stop) for model in measured.models] == [(11.0, 0.5), (7.0, 0.5)]
    assert [(model.load, model.stop) for model in known.models] == [(7.0, 1.0), (7.0, 1.0)]
    assert recording(*asked).unmeasured() == ["qwen"]


def test_the_configuration_is_recorded_with_the_traffic() -> None:
    """Memory, groups and patience, as far as they concern requested models."""
    found = recording(
        SeenRequest("u", "qwen", 0.0, 1.0, 2.0),
        devices={"gpu0": 24 * GIB},
        groups=[Group("g", ("qwen", "gemma"), swap=False), Group("h", ("gemma",))],
        scheduler=Scheduler(4.0, 100),
    ).trace()

    assert found.models == (Model("qwen", 7.0, 1.0, 4, {"gpu0": 20.0}),)
    assert found.memory == Memory({"gpu0": 24.0})
    assert found.groups == (Group("g", ("qwen",), swap=False),)
    assert found.scheduler == Scheduler(4.0, 100)
    assert parse(write(found)) == found


def test_the_choice_of_cards_is_recorded() -> None:
    """A simulation may then choose among other cards."""
    qwen = SeenModel("qwen", memory={"gpus": 20 * GIB}, gpus="auto", load_s=7.0)
    asked = SeenRequest("u", "qwen", 0.0, 1.0, 2.0)
    found = Recording(models=[qwen], devices={"gpu0": 24 * GIB, "gpu1": 24 * GIB}, requests=[asked]).trace()

    assert found.models == (Model("qwen", 7.0, size={"gpus": 20.0}, gpus="auto"),)
    assert parse(write(found)) == found


def test_slots_are_as_the_server_reported() -> None:
    """Where the configuration has none."""
    asked = [SeenRequest("u", name, 0.0, 1.0, 2.0) for name in ("qwen", "gemma")]
    found = recording(*asked, slots={"qwen": 8, "gemma": 2}).trace()

    assert [model.slots for model in found.models] == [4, 2]


def test_a_matrix_is_recorded_for_requested_models() -> None:
    """Sets of models that nobody requested decide nothing."""
    matrix = Matrix((("qwen", "gemma"), ("gemma", "other"), ("gemma",)), {"qwen": 3, "gemma": 2})
    found = recording(SeenRequest("u", "qwen", 0.0, 1.0, 2.0), matrix=matrix).trace()

    assert found.matrix == Matrix((("qwen",),), {"qwen": 3})
    assert parse(write(found)) == found


def test_a_declared_size_without_budgets_is_left_out() -> None:
    """It decides nothing, and a trace may name only devices that it defines."""
    found = recording(SeenRequest("u", "qwen", 0.0, 1.0, 2.0)).trace()

    assert found.models[0].size is None
    assert parse(write(found)) == found


def test_a_recording_of_nothing_is_a_trace_of_nothing() -> None:
    """No request, no client."""
    assert Recording().trace().clients == ()


def test_what_was_simulated_can_be_recorded_and_simulated_again() -> None:
    """A closed loop seen from outside is found again, and plays the same."""
    steps = tuple(Step(0.5 * (n > 0), "qwen", 2.0) for n in range(5))
    original = recording(SeenRequest("u", "qwen", 0.0, 0.0, 1.0)).trace()
    played = play(
        type(original)(original.models, (Closed("c1", steps),)), Turns(Turntaker(catalog_of(original)))
    ).requests
    seen = [
        SeenRequest("u", "qwen", request.arrived, request.started or 0.0, request.finished or 0.0) for request in played
    ]
    [client] = recording(*seen).trace().clients

    assert isinstance(client, Closed)
    assert [step.think for step in client.steps] == pytest.approx([step.think for step in steps])
    assert [step.service for step in client.steps] == pytest.approx([step.service for step in steps])


def test_rates_are_the_medians_of_what_was_seen() -> None:
    """Of the model's own prompts and conversations; None where there were none."""
    prompt = PromptProcessed(TicketId(1), 2000, 0, 1.0, 40)
    qwen = SeenModel("qwen", load_s=7.0, keeps_conversations=True)
    seen = Recording([qwen, GEMMA], saves={"qwen": [4e4, 2e4, 3e4]}, restores={"qwen": [6e4]})
    seen.requests += [SeenRequest("u", "qwen", 0.0, 1.0, 4.0, prompt), SeenRequest("v", "gemma", 0.0, 1.0, 2.0)]
    found = seen.trace()

    assert found.models == (
        Model("qwen", 7.0, compute_rate=2000.0, save_rate=3e4, restore_rate=6e4, keeps_conversations=True),
        Model("gemma", 7.0),
    )
    assert found.clients == (Open("c1", 0.0, "qwen", 3.0, Prompt(2000, 0, 40)), Open("c2", 0.0, "gemma", 1.0))
    assert parse(write(found)) == found


def reported(computed: int, cached: int = 0, took_s: float = 0.0, generated: int = 0) -> PromptProcessed:
    return PromptProcessed(TicketId(1), computed, cached, took_s, generated)


def seen(prompt: PromptProcessed | None, process: int, service: float = 10.0, model: str = "qwen") -> SeenRequest:
    return SeenRequest("ann", model, 0.0, 0.0, service, prompt, process)


FIRST = seen(reported(3900, took_s=4.0, generated=100), process=1)


def test_what_a_new_process_computed_again_is_taken_out() -> None:
    """4,000 of 5,000 tokens were known, so four of five seconds were lost; the service time is that without them."""
    _, job = recorded_jobs([FIRST, seen(reported(5000, took_s=5.0, generated=50), process=2)])

    assert job == Job("qwen", 6.0, Prompt(new=1000, known=4000, answer=50))


def test_what_a_new_process_had_restored_was_not_computed() -> None:
    """The server reports it as cached."""
    _, job = recorded_jobs([FIRST, seen(reported(1000, 4000, took_s=1.0), process=2)])

    assert job == Job("qwen", 10.0, Prompt(new=1000, known=4000))


@pytest.mark.parametrize(
    ("request_", "prompt"),
    [
        (seen(reported(1000, 4000, took_s=1.0), process=1), Prompt(1000, 4000)),
        (seen(reported(5000, 0, took_s=5.0), process=1), Prompt(5000)),
        (seen(reported(1500, took_s=1.5), process=2), Prompt(1500)),
        (seen(reported(5000), process=2), Prompt(5000)),
        (seen(reported(10, 3990, took_s=0.1), process=2), Prompt(10, 3990)),
        (seen(reported(5000, took_s=5.0), process=2, model="gemma"), Prompt(5000)),
        (seen(None, process=2), None),
    ],
    ids=["continued", "new", "shorter", "untimed", "short", "other-model", "not-reported"],
)
def test_other_prompts_are_as_the_server_reported(request_: SeenRequest, prompt: Prompt | None) -> None:
    """In the same process, in another conversation, or without a time: nothing shows that tokens were lost."""
    _, job = recorded_jobs([FIRST, request_])

    assert job == Job(request_.model, 10.0, prompt)


def test_a_request_that_says_nothing_is_passed_over() -> None:
    """The conversation of its client is that of the prompt before it."""
    *_, job = recorded_jobs([FIRST, seen(None, process=1), seen(reported(5000, took_s=5.0), process=2)])

    assert job.prompt == Prompt(new=1000, known=4000)


def test_a_service_time_is_never_negative() -> None:
    """The server's clock is not hotseat's."""
    _, job = recorded_jobs([FIRST, seen(reported(4000, took_s=12.0), process=2)])

    assert job == Job("qwen", 0.0, Prompt(new=0, known=4000))


def test_the_rate_is_the_median_of_what_was_computed() -> None:
    """Prompts that are short or without a time say nothing."""
    prompts = [
        reported(1000, took_s=1.0),
        reported(2000, took_s=1.0),
        reported(9000, took_s=1.0),
        reported(10, took_s=1.0),
        reported(500),
    ]

    assert compute_rate(prompts) == 2000.0
    assert compute_rate(prompts[3:]) is None


def test_figures_that_cannot_be_true_do_not_spoil_a_recording() -> None:
    """A server may report more cached tokens than its prompt has, or a time of years."""
    [job] = recorded_jobs([seen(reported(-40, 100), process=1)])

    assert job.prompt == Prompt(new=0, known=100)
    assert compute_rate([reported(64, took_s=1e9)]) is None
