"""What measurements change: the figures of models, and what other programs leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import footprint, most_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, Place
    from hotseat.scheduling.events import DevicesChanged, MemoryMeasured
    from hotseat.scheduling.state import ModelState, State


def note_measured(state: State, event: MemoryMeasured) -> None:
    if not (model := state.of_launch(event)):
        return
    model.measured = event.memory
    if model.phase is Phase.ASLEEP:
        _count_asleep(state, model, event.memory)
    else:
        count_measured(state, model, event.memory)


def count_measured(state: State, model: ModelState, memory: Mapping[Place, Bytes]) -> None:
    """Declared memory wins. A server without requests so far may not have touched all memory it needs."""
    if model.spec.memory is not None:
        return
    known = footprint(model)
    before = known.memory if known else NOTHING
    measured = memory if model.served else most_of(before, memory)
    if not model.served and measured == before:
        return
    model.stats.memory = {**(model.stats.memory or NOTHING), **measured}
    state.may_exceed_memory = True


def _count_asleep(state: State, model: ModelState, memory: Mapping[Place, Bytes]) -> None:
    """Memory kept asleep is a separate figure."""
    assert model.sleep_level is not None
    model.stats.sleep_stats(model.sleep_level.name).memory = {place.device: size for place, size in memory.items()}
    state.may_exceed_memory = True


def note_devices(state: State, event: DevicesChanged) -> None:
    state.available = event.available
    state.reckon_limits()
    state.may_exceed_memory = True
