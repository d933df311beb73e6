"""Who goes. The whole set is chosen before the first one is stopped: whoever leaves must help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.room import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.state import ModelState, State


def choose_victims(
    state: State, wanted: ModelSpec, free: Sequence[ModelState], staying: Sequence[ModelState]
) -> tuple[ModelState, ...] | None:
    """The models of `free` that must go so that `wanted` fits beside the rest of `staying`; None if that is not enough.

    Idle ones before busy ones, longest unused first; then whoever turns out not to be needed is let off again.
    """
    victims: list[ModelState] = []
    for candidate in sorted(free, key=lambda model: (not state.is_idle(model), model.idle_since, model.name)):
        if _fits_without(state, wanted, staying, victims):
            break
        victims.append(candidate)
    if not _fits_without(state, wanted, staying, victims):
        return None
    for candidate in reversed(victims[:]):
        others = [victim for victim in victims if victim is not candidate]
        if _fits_without(state, wanted, staying, others):
            victims = others
    return tuple(victims)


def _fits_without(
    state: State, wanted: ModelSpec, staying: Sequence[ModelState], victims: Sequence[ModelState]
) -> bool:
    beside = (model.spec for model in staying if all(model is not victim for victim in victims))
    return fits(wanted, beside, state.catalog)
