"""Turn recorded requests of a running hotseat into a trace.

A client that always waited for its response is replayed as a closed loop with its think times; one whose requests
overlapped is replayed at the recorded times. Client names may be addresses or people, so a trace numbers them.

A server that was started between two requests of a client has computed their common tokens again, and the recorded
time includes that. Whether it happens in a simulation depends on its swaps, so it is taken out here; the simulation
adds it where it belongs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from hotseat.identifiers import ANY_GPU
from hotseat.scheduling.conversation_state import LEAST_SAMPLE, SAME
from hotseat.simulation.trace import (
    Client,
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
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.scheduling.events import PromptProcessed

GIB = 1 << 30
UNKNOWN_LOAD_S: Seconds = 20.0
UNKNOWN_STOP_S: Seconds = 1.0


@dataclass(frozen=True, slots=True)
class SeenModel:
    """A model of the recorded hotseat; `load_s` as far as it was known."""

    name: str
    slots: int | None = None
    memory: dict[str, Bytes] | None = None
    gpus: Literal["auto"] | int | tuple[str, ...] | None = None
    ttl_s: Seconds | None = None
    urgency: float = 1.0
    pinned: bool = False
    load_s: Seconds | None = None
    keeps_conversations: bool = False


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


@dataclass(slots=True)
class Recording:
    models: list[SeenModel] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    devices: dict[str, Bytes] = field(default_factory=dict)
    scheduler: Scheduler = field(default_factory=Scheduler)
    matrix: Matrix | None = None
    requests: list[SeenRequest] = field(default_factory=list)
    loads: dict[str, list[Seconds]] = field(default_factory=dict)
    stops: dict[str, list[Seconds]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    """As servers reported them while recording."""
    saves: dict[str, list[float]] = field(default_factory=dict)
    """Tokens per second of each conversation that was saved."""
    restores: dict[str, list[float]] = field(default_factory=dict)

    def trace(self) -> Trace:
        """Only models that were requested or are pinned."""
        asked = {request.model for request in self.requests}
        models = [model for model in self.models if model.name in asked or model.pinned]
        known = {model.name for model in models}
        return Trace(
            models=tuple(self._model(model) for model in models),
            clients=tuple(clients(self.requests)),
            memory=Memory({device: bytes_ / GIB for device, bytes_ in self.devices.items()}) if self.devices else None,
            groups=tuple(group for each in self.groups if (group := among(each, known)).members),
            scheduler=self.scheduler,
            matrix=matrix_among(self.matrix, known) if self.matrix else None,
        )

    def _model(self, model: SeenModel) -> Model:
        return Model(
            name=model.name,
            load=self.load_s(model),
            stop=mean(self.stops.get(model.name, ()), self._all(self.stops), UNKNOWN_STOP_S),
            slots=model.slots or self.slots.get(model.name),
            size=self._size(model),
            gpus=model.gpus,
            ttl=model.ttl_s,
            urgency=model.urgency,
            pinned=model.pinned,
            compute_rate=compute_rate(
                each.prompt for each in self.requests if each.model == model.name and each.prompt
            ),
            save_rate=median_of(self.saves.get(model.name, ())),
            restore_rate=median_of(self.restores.get(model.name, ())),
            keeps_conversations=model.keeps_conversations,
        )

    def _size(self, model: SeenModel) -> dict[str, float] | None:
        """On devices with a budget; without budgets memory decides nothing."""
        counted = [*self.devices, *([ANY_GPU.device] if model.gpus and self.devices else [])]
        return {device: bytes_ / GIB for device, bytes_ in (model.memory or {}).items() if device in counted} or None

    def load_s(self, model: SeenModel) -> Seconds:
        """As measured while recording, else as hotseat had measured it, else the mean of other models."""
        known = [] if model.load_s is None else [model.load_s]
        others = self._all(self.loads) + [each.load_s for each in self.models if each.load_s is not None]
        return mean(self.loads.get(model.name, known), others, UNKNOWN_LOAD_S)

    def unmeasured(self) -> list[str]:
        """Requested models that never loaded and whose load time is therefore a guess."""
        asked = {request.model for request in self.requests}
        return [
            model.name
            for model in self.models
            if model.name in asked and model.load_s is None and model.name not in self.loads
        ]

    @staticmethod
    def _all(measured: dict[str, list[Seconds]]) -> list[Seconds]:
        return [seconds for each in measured.values() for seconds in each]


def mean(own: Sequence[Seconds], others: Sequence[Seconds], guess: Seconds) -> Seconds:
    chosen = own or others
    return round(fmean(chosen), 3) if chosen else guess


def among(group: Group, names: set[str]) -> Group:
    members = tuple(name for name in group.members if name in names)
    return Group(group.name, members, group.swap, group.exclusive, group.persistent)


def matrix_among(matrix: Matrix, names: set[str]) -> Matrix:
    """Which of these models may run together does not depend on the others."""
    sets = (tuple(name for name in each if name in names) for each in matrix.sets)
    costs = {name: cost for name, cost in matrix.evict_costs.items() if name in names}
    return Matrix(tuple(each for each in sets if each), costs)


def clients(requests: Sequence[SeenRequest]) -> list[Client]:
    """Each client as a closed loop or as open requests; time 0 is the first arrival."""
    begin = min((request.arrived for request in requests), default=0.0)
    by_client: dict[str, list[SeenRequest]] = {}
    for request in sorted(requests, key=lambda request: request.arrived):
        by_client.setdefault(request.client, []).append(request)
    found: list[Client] = []
    for number, theirs in enumerate(by_client.values(), start=1):
        found += played_back(f"c{number}", theirs, begin)
    return found


def played_back(name: str, requests: Sequence[SeenRequest], begin: Instant) -> list[Client]:
    jobs = [*recorded_jobs(requests)]
    if not waits_for_answers(requests):
        times = (rounded(each.arrived - begin) for each in requests)
        return [Open(name, at, job.model, job.service, job.prompt) for at, job in zip(times, jobs, strict=True)]
    thinks = [0.0, *(after.arrived - before.left for before, after in pairwise(requests))]
    steps = (Step(rounded(think), job.model, job.service, job.prompt) for think, job in zip(thinks, jobs, strict=True))
    return [Closed(name, tuple(steps), start=rounded(requests[0].arrived - begin))]


def waits_for_answers(requests: Sequence[SeenRequest]) -> bool:
    """A single request proves nothing: it is replayed at its recorded time."""
    return len(requests) > 1 and all(before.left <= after.arrived for before, after in pairwise(requests))


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
