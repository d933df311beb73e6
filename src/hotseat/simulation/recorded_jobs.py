"""The requests of one client as they were recorded, without what was computed again after a swap.

A server that was started between two requests of a client has computed their common tokens again, and the recorded
time includes that. Whether it happens in a simulation depends on its swaps, so it is taken out here; the simulation
adds it where it belongs.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from hotseat.scheduling.conversation_stats import LEAST_SAMPLE, SAME
from hotseat.simulation.trace import Job, Prompt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.events import PromptProcessed


@dataclass(frozen=True, slots=True)
class SeenRequest:
    client: str
    model: str
    arrived: Instant
    granted: Instant
    left: Instant
    prompt: PromptProcessed | None = None
    """None: its server has not reported it."""
    process: int = 0
    """How many loads of the model were seen before it ended."""


def recorded_jobs(requests: Sequence[SeenRequest]) -> Iterator[Job]:
    """Of one client, in the order in which they arrived."""
    last: dict[str, SeenRequest] = {}
    for request in requests:
        yield job(last.get(request.model), request)
        if request.prompt is not None:
            last[request.model] = request


def job(earlier: SeenRequest | None, request: SeenRequest) -> Job:
    prompt, service_s = request.prompt, request.left - request.granted
    if prompt is None:
        return Job(request.model, rounded(service_s))
    again = computed_again(earlier, request)
    service_s -= prompt.took_s * again / prompt.computed if again else 0.0
    figures = Prompt(max(0, prompt.computed - again), prompt.cached + again, prompt.generated)
    return Job(request.model, rounded(max(0.0, service_s)), figures)


def computed_again(earlier: SeenRequest | None, request: SeenRequest) -> int:
    """Tokens of the prompt that an earlier process had computed. A shorter prompt begins another conversation."""
    if earlier is None or earlier.process == request.process:
        return 0
    before, prompt = earlier.prompt, request.prompt
    if before is None or prompt is None or not says_rate(prompt) or tokens(prompt) < SAME * tokens(before):
        return 0
    return max(0, min(tokens(before) + before.generated, tokens(prompt)) - prompt.cached)


def compute_rate(prompts: Iterable[PromptProcessed]) -> float | None:
    """Tokens per second; None: too little was computed to know."""
    return median_of([prompt.computed / prompt.took_s for prompt in prompts if says_rate(prompt)])


def median_of(rates: Sequence[float]) -> float | None:
    """None: unknown, or too low to be true."""
    return (round(median(rates), 1) if rates else 0.0) or None


def says_rate(prompt: PromptProcessed) -> bool:
    return prompt.computed >= LEAST_SAMPLE and prompt.took_s > 0.0


def tokens(prompt: PromptProcessed) -> int:
    return prompt.computed + prompt.cached


def rounded(seconds: Seconds) -> Seconds:
    """Microseconds: further digits are noise."""
    return round(seconds, 6)
