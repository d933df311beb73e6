"""Traffic as JSON lines: one file is one scenario, written by hand, by a benchmark or by `hotseat record`.

    {"t": "model", "name": "A", "size": 20, "load": 15.3, "stop": 1.0, "slots": 4}
    {"t": "memory", "devices": {"gpu0": 24}}
    {"t": "open", "client": "u1", "at": 12.5, "model": "A", "service": 3.1}
    {"t": "closed", "client": "ag1", "start": 0, "steps": [[0.5, "A", 3.0], [0.5, "B", 2.2]]}
    {"t": "pool", "client": "batch", "start": 0, "width": 8, "jobs": [["B", 6.0]]}

An open client asks at fixed times. A closed one thinks, asks and waits for its answer before it thinks again: played
back at its recorded times it would hide all thrash. A pool is `width` workers on a common list. Times are seconds,
sizes GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from hotseat.errors import HotseatError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

S: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
GiB: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]

FIRST_DEVICE = "gpu0"


class Record(msgspec.Struct, frozen=True, tag_field="t", tag=str.lower, forbid_unknown_fields=True, omit_defaults=True):
    """One line. What it does not know it refuses, so that a typing error is no silent change of the scenario."""


class Model(Record, frozen=True):
    name: Name
    load: S
    stop: S = 1.0
    slots: AtLeastOne | None = None
    """How many requests its server works on at a time; None: as many as come."""
    size: GiB | dict[str, GiB] | None = None
    """On the first device, or per device; None: it takes the whole first device."""


class Memory(Record, frozen=True):
    devices: dict[str, GiB]


class Open(Record, frozen=True):
    client: Name
    at: S
    model: Name
    service: S


class Step(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    think: S
    model: Name
    service: S


class Closed(Record, frozen=True):
    client: Name
    steps: tuple[Step, ...]
    start: S = 0.0


class Job(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    model: Name
    service: S


class Pool(Record, frozen=True):
    client: Name
    width: AtLeastOne
    jobs: tuple[Job, ...]
    start: S = 0.0


Client: TypeAlias = Open | Closed | Pool
Line: TypeAlias = Model | Memory | Client

_DECODER = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Trace:
    models: tuple[Model, ...]
    clients: tuple[Client, ...]
    memory: Memory | None = None
    """None: no memory is counted, and one model runs at a time."""


class TraceError(HotseatError):
    """A trace that cannot be played, with every complaint and its line."""

    code = "bad_trace"

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = complaints


def parse(text: str) -> Trace:
    """The trace in `text`; TraceError names every line that is wrong. Empty lines and `#` lines are skipped."""
    complaints: list[str] = []
    lines = list(_decoded(text, complaints))
    complaints += [] if complaints else _contradictions(lines)
    if complaints:
        raise TraceError(complaints)
    return traced(line for _, line in lines)


def traced(lines: Iterable[Line]) -> Trace:
    records = list(lines)
    return Trace(
        models=tuple(line for line in records if isinstance(line, Model)),
        clients=tuple(line for line in records if isinstance(line, Open | Closed | Pool)),
        memory=next((line for line in records if isinstance(line, Memory)), None),
    )


def write(trace: Trace) -> str:
    records: list[Line] = [*trace.models, *([trace.memory] if trace.memory else []), *trace.clients]
    return "".join(f"{line_of(record)}\n" for record in records)


def line_of(record: Line) -> str:
    return _ENCODER.encode(record).decode()


def jobs_of(client: Client) -> Iterator[Job]:
    """What a client asks for, in order."""
    match client:
        case Open():
            yield Job(client.model, client.service)
        case Closed():
            yield from (Job(step.model, step.service) for step in client.steps)
        case Pool():
            yield from client.jobs


# Complaints


def _decoded(text: str, complaints: list[str]) -> Iterator[tuple[int, Line]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            yield number, _DECODER.decode(line)
        except msgspec.DecodeError as error:
            complaints.append(f"line {number}: {_in_words(error)}")


def _in_words(error: msgspec.DecodeError) -> str:
    if isinstance(error, msgspec.ValidationError):
        return str(error).replace("`", "").replace("$.t", "t").replace("$.", "")
    return f"not JSON: {error}"


def _contradictions(lines: list[tuple[int, Line]]) -> list[str]:
    """What no line shows by itself."""
    models: dict[str, int] = {}
    memory: Memory | None = None
    found = []
    for number, line in lines:
        if isinstance(line, Model):
            if line.name in models:
                found.append(f"line {number}: model {line.name} was told before, in line {models[line.name]}")
            models.setdefault(line.name, number)
        elif isinstance(line, Memory):
            if memory is not None:
                found.append(f"line {number}: memory was told before; one line tells all devices")
            memory = line
    for number, line in lines:
        found += [f"line {number}: {sentence}" for sentence in _unknown_names(line, models, memory)]
    if not models:
        found.append("no model is told; write one line per model, as in docs/howto/simulate.md")
    return found


def _unknown_names(line: Line, models: dict[str, int], memory: Memory | None) -> Iterator[str]:
    if isinstance(line, Open | Closed | Pool):
        for name in dict.fromkeys(job.model for job in jobs_of(line) if job.model not in models):
            yield f"client {line.client} asks for {name}, but no line tells this model.{did_you_mean(name, models)}"
    elif isinstance(line, Model) and isinstance(line.size, dict):
        known = memory.devices if memory else {}
        for device in (device for device in line.size if device not in known):
            yield f"model {line.name} takes room on {device}, but no memory line tells this device"
