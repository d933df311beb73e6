"""What a recording says about prompts, apart from the swaps that happened while it was made."""

from __future__ import annotations

import pytest

from hotseat.identifiers import TicketId
from hotseat.scheduling.events import PromptProcessed
from hotseat.simulation.recorded_jobs import SeenRequest, compute_rate, recorded_jobs
from hotseat.simulation.trace import Job, Prompt


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
