"""A trace on a machine with other GPUs, and the figures that say whether it is worth its price.

Models go wherever the scheduler places them, unless the trace names their devices. On a machine with one GPU nobody
chose, so a model on that GPU may go anywhere, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from hotseat.identifiers import ANY_GPU, RAM
from hotseat.simulation.results import batch_completions, figures, latency, quantile, wait
from hotseat.simulation.trace import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.identifiers import Seconds
    from hotseat.simulation.run_log import Run
    from hotseat.simulation.trace import Model, Trace


def with_gpus(trace: Trace, sizes: Sequence[float]) -> Trace:
    """The trace on a machine with GPUs of these sizes in GiB; other memory stays."""
    others = {device: gib for device, gib in _devices(trace).items() if device == RAM}
    models = tuple(_placed(model, _recorded_gpus(trace)) for model in trace.models)
    return replace(trace, models=models, memory=Memory({**_gpus(sizes), **others}))


def misplaced(trace: Trace, sizes: Sequence[float]) -> Iterator[str]:
    """What the trace says about devices that a machine with GPUs of these sizes does not have."""
    on_it = with_gpus(trace, sizes)
    has = [*_devices(on_it), ANY_GPU.device]
    for model in on_it.models:
        if lacking := [device for device in _named(model) if device not in has]:
            yield f"the trace puts {model.name} on {', '.join(lacking)}"
        if isinstance(model.gpus, int) and model.gpus > len(sizes):
            yield f"the trace gives {model.name} {model.gpus} GPUs"


def _placed(model: Model, recorded: Sequence[str]) -> Model:
    if model.gpus:
        return model
    if not isinstance(model.size, dict):
        return msgspec.structs.replace(model, gpus="auto")
    if len(recorded) > 1 or recorded[0] not in model.size:
        return model
    size = {str(ANY_GPU.device) if device == recorded[0] else device: gib for device, gib in model.size.items()}
    return msgspec.structs.replace(model, size=size, gpus="auto")


def _named(model: Model) -> list[str]:
    sizes = list(model.size) if isinstance(model.size, dict) else []
    return [*sizes, *(model.gpus if isinstance(model.gpus, tuple) else ())]


def _devices(trace: Trace) -> dict[str, float]:
    return trace.memory.devices if trace.memory else {}


def _recorded_gpus(trace: Trace) -> list[str]:
    return [device for device in _devices(trace) if device != RAM] or [*_gpus([0.0])]


def _gpus(sizes: Sequence[float]) -> dict[str, float]:
    return {f"gpu{number}": gib for number, gib in enumerate(sizes)}


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """Latency, wait and slowdown are those of the clients that are not batches; None: none of them was served."""

    unserved: int
    """Refused, or still waiting at the end of the run."""
    loads: int
    slowdown: float | None
    """Geometric mean over the clients: 1 if no request waited."""
    p95_s: Seconds | None
    longest_wait_s: Seconds | None
    batches_s: Seconds | None
    """From the start of a batch to its last response, for the one that takes longest; None: no batch was served."""
    stalled: float | None
    """None: no request was served."""


def machine_figures(run: Run) -> MachineFigures:
    known = figures(run)
    theirs = [each for each in run.requests if each.client not in run.batches and each.finished is not None]
    return MachineFigures(
        unserved=known.unserved,
        loads=known.loads,
        slowdown=known.slowdown if theirs else None,
        p95_s=quantile(sorted(map(latency, theirs)), 0.95) if theirs else None,
        longest_wait_s=max(map(wait, theirs), default=None),
        batches_s=max(batch_completions(run).values(), default=None),
        stalled=known.stalled if known.served else None,
    )
