"""Traffic as JSON lines: one file is one scenario, written by hand, by a benchmark or by `hotseat record`.

    {"t": "model", "name": "A", "size": 20, "load": 15.3, "stop": 1.0, "slots": 4}
    {"t": "memory", "devices": {"gpu0": 24}}
    {"t": "open", "client": "u1", "at": 12.5, "model": "A", "service": 3.1}
    {"t": "closed", "client": "ag1", "start": 0, "steps": [[0.5, "A", 3.0], [0.5, "B", 2.2]]}
    {"t": "bursts", "client": "ag2", "start": 0, "bursts": [[0.5, [["A", 3.0], ["A", 2.0]]], [1.0, [["B", 4.0]]]]}
    {"t": "pool", "client": "batch", "start": 0, "width": 8, "jobs": [["B", 6.0]]}
    {"t": "model", "name": "C", "size": 18, "load": 12.0, "compute_rate": 900, "keeps_conversations": true}
    {"t": "closed", "client": "ag3", "steps": [[0.5, "C", 4.2, [3000, 0, 250]], [2.0, "C", 1.9, [400, 3250, 180]]]}

An open client sends at fixed times. A closed one thinks, sends and waits for the response before it thinks again:
replayed at its recorded times it would hide thrashing. Bursts are the same with several requests at once, all of which
must be answered. A pool is `width` workers on a common list. A request may have the tokens of its prompt: those that
are new, those that were computed for an earlier prompt of its client, and those of the answer. Times are in seconds,
sizes in GiB. `group`, `matrix` and `scheduler` lines correspond to the configuration and have the same defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never

import msgspec

from hotseat.errors import HotseatError, did_you_mean
from hotseat.identifiers import ANY_GPU, RAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

S: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
GiB: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
TokensPerSecond: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]

FIRST_DEVICE = "gpu0"


class Record(msgspec.Struct, frozen=True, tag_field="t", tag=str.lower, forbid_unknown_fields=True, omit_defaults=True):
    """One line. Unknown fields are refused, so that a typo does not silently change the scenario."""


class Model(Record, frozen=True):
    name: Name
    load: S
    stop: S = 1.0
    slots: AtLeastOne | None = None
    """Concurrent requests of its server; None: no limit."""
    size: GiB | dict[str, GiB] | None = None
    """On the first device, or per device; None: the whole first device."""
    gpus: Literal["auto"] | AtLeastOne | tuple[Name, ...] | None = None
    """As in the configuration; its size on GPUs is then that on `gpus`, or a single size."""
    ttl: S | None = None
    urgency: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    pinned: bool = False
    compute_rate: TokensPerSecond | None = None
    """Of its prompts; None: unknown, so nothing is computed again."""
    save_rate: TokensPerSecond | None = None
    """Of conversations that are written to disk; None: the usual rate."""
    restore_rate: TokensPerSecond | None = None
    keeps_conversations: bool = False
    """Its conversations are saved before it is stopped."""


class Memory(Record, frozen=True):
    devices: dict[str, GiB]


class Group(Record, frozen=True):
    name: Name
    members: tuple[Name, ...]
    swap: bool = True
    exclusive: bool = True
    persistent: bool = False


class Matrix(Record, frozen=True):
    """Instead of groups: which sets of models may be loaded together."""

    sets: tuple[tuple[Name, ...], ...]
    evict_costs: dict[str, int] = {}  # msgspec copies it


class Scheduler(Record, frozen=True, omit_defaults=False):
    """Always written out: a recording must keep its meaning when defaults change."""

    patience: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    max_queue: AtLeastOne = 512
    max_wait: S | None = None


AS_BY_DEFAULT = Scheduler()


class Prompt(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Tokens of a prompt and of its answer."""

    new: Tokens
    """Computed in any case: `service` includes them."""
    known: Tokens = 0
    """Computed for an earlier prompt of the client: computed again if its server has lost them."""
    answer: Tokens = 0

    @property
    def tokens(self) -> int:
        """Of the conversation when it is answered."""
        return self.new + self.known + self.answer


class Open(Record, frozen=True):
    client: Name
    at: S
    model: Name
    service: S
    prompt: Prompt | None = None


class Step(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    think: S
    model: Name
    service: S
    prompt: Prompt | None = None


class Closed(Record, frozen=True):
    client: Name
    steps: tuple[Step, ...]
    start: S = 0.0


class Job(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    model: Name
    service: S
    prompt: Prompt | None = None


class Burst(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    think: S
    jobs: Annotated[tuple[Job, ...], msgspec.Meta(min_length=1)]


class Bursts(Record, frozen=True):
    client: Name
    bursts: tuple[Burst, ...]
    start: S = 0.0


class Pool(Record, frozen=True):
    client: Name
    width: AtLeastOne
    jobs: tuple[Job, ...]
    start: S = 0.0


Client: TypeAlias = Open | Closed | Bursts | Pool
Line: TypeAlias = Model | Memory | Group | Matrix | Scheduler | Client

_DECODER = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Trace:
    models: tuple[Model, ...]
    clients: tuple[Client, ...]
    memory: Memory | None = None
    """None: memory is not counted, and models in no group run one at a time."""
    groups: tuple[Group, ...] = ()
    scheduler: Scheduler = AS_BY_DEFAULT
    matrix: Matrix | None = None
    """If set, decides instead of the groups."""


class TraceError(HotseatError):
    """An invalid trace, with every problem and its line."""

    code = "bad_trace"
    retry_helps = False

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def parse(text: str) -> Trace:
    """Parse a trace; TraceError lists every invalid line. Empty lines and `#` lines are skipped."""
    problems: list[str] = []
    lines = list(_decoded(text, problems))
    problems += [] if problems else _contradictions(lines)
    if problems:
        raise TraceError(problems)
    return traced(line for _, line in lines)


def traced(lines: Iterable[Line]) -> Trace:
    records = list(lines)
    return Trace(
        models=tuple(line for line in records if isinstance(line, Model)),
        clients=tuple(line for line in records if isinstance(line, Open | Closed | Bursts | Pool)),
        memory=next((line for line in records if isinstance(line, Memory)), None),
        groups=tuple(line for line in records if isinstance(line, Group)),
        scheduler=next((line for line in records if isinstance(line, Scheduler)), AS_BY_DEFAULT),
        matrix=next((line for line in records if isinstance(line, Matrix)), None),
    )


def write(trace: Trace) -> str:
    memory = [trace.memory] if trace.memory else []
    matrix = [trace.matrix] if trace.matrix else []
    records: list[Line] = [trace.scheduler, *memory, *trace.groups, *matrix, *trace.models, *trace.clients]
    return "".join(f"{_ENCODER.encode(record).decode()}\n" for record in records)


def jobs_of(client: Client) -> Iterator[Job]:
    match client:
        case Open():
            yield Job(client.model, client.service, client.prompt)
        case Closed():
            yield from (Job(step.model, step.service, step.prompt) for step in client.steps)
        case Bursts():
            yield from (job for burst in client.bursts for job in burst.jobs)
        case Pool():
            yield from client.jobs
        case _:
            assert_never(client)


# Problems


def _decoded(text: str, problems: list[str]) -> Iterator[tuple[int, Line]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            yield number, _DECODER.decode(line)
        except msgspec.DecodeError as error:
            problems.append(f"line {number}: {_in_words(error)}")
        except RecursionError:
            problems.append(f"line {number}: nested too deeply")


def _in_words(error: msgspec.DecodeError) -> str:
    if isinstance(error, msgspec.ValidationError):
        return str(error).replace("`", "").replace("$.t", "t").replace("$.", "")
    return f"not JSON: {error}"


def _contradictions(lines: list[tuple[int, Line]]) -> list[str]:
    """Problems that involve several lines."""
    first: dict[tuple[type[Line], str], int] = {}
    found = []
    for number, line in lines:
        what = _said_once(line)
        if what and (type(line), what) in first:
            found.append(f"line {number}: {what} is already defined in line {first[type(line), what]}")
        first.setdefault((type(line), what), number)
    models = [line.name for _, line in lines if isinstance(line, Model)]
    devices = [device for _, line in lines if isinstance(line, Memory) for device in line.devices]
    for number, line in lines:
        found += [f"line {number}: {sentence}" for sentence in _unknown_names(line, models, devices)]
    return found if models else [*found, "no model is defined: write one line per model"]


def _said_once(line: Line) -> str:
    """What only one line may define; empty if repetition is allowed."""
    match line:
        case Model():
            return f"model {line.name}"
        case Group():
            return f"group {line.name}"
        case Memory() | Matrix() | Scheduler():
            return type(line).__name__.lower()
        case _:
            return ""


def _unknown_names(line: Line, models: list[str], devices: list[str]) -> Iterator[str]:
    match line:
        case Open() | Closed() | Bursts() | Pool():
            for name in dict.fromkeys(job.model for job in jobs_of(line) if job.model not in models):
                yield f"client {line.client} requests {name}, but no line defines it.{did_you_mean(name, models)}"
        case Group():
            for name in (name for name in line.members if name not in models):
                yield f"group {line.name} contains {name}, but no line defines it.{did_you_mean(name, models)}"
        case Matrix():
            named = dict.fromkeys([*(name for each in line.sets for name in each), *line.evict_costs])
            for name in (name for name in named if name not in models):
                yield f"the matrix contains {name}, but no line defines it.{did_you_mean(name, models)}"
        case Model():
            for device in (device for device in _devices_of(line) if device not in devices):
                yield f"model {line.name} uses memory on {device}, but no memory line defines this device"
            gpus = [device for device in devices if device != RAM]
            if devices and isinstance(line.gpus, int) and line.gpus > len(gpus):
                yield f"model {line.name} uses {line.gpus} GPUs, but the memory line defines {len(gpus)}"


def _devices_of(model: Model) -> Iterator[str]:
    sizes = model.size if isinstance(model.size, dict) else {}
    yield from (device for device in sizes if device != ANY_GPU.device or not model.gpus)
    yield from model.gpus if isinstance(model.gpus, tuple) else ()
