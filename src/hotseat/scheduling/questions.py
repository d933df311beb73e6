"""What may be asked of the scheduler. Only the view of all models costs more with 10,000 models than with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING
from hotseat.scheduling.bound import unkept_max_wait
from hotseat.scheduling.conversation_state import LEAST_SAMPLE
from hotseat.scheduling.handover_transitions import export
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import footprint, refusal
from hotseat.scheduling.placement import card_choices, needs_on
from hotseat.scheduling.state import LONG_AGO
from hotseat.scheduling.view import InUse, snapshot, snapshot_of, why

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import Footprint
    from hotseat.identifiers import Bytes, Instant, ModelName, Place, TicketId, Upstream
    from hotseat.scheduling.events import YieldRequested
    from hotseat.scheduling.handover import Handover
    from hotseat.scheduling.model_stats import StatsOfModels
    from hotseat.scheduling.state import State
    from hotseat.scheduling.view import ModelView, View


class Questions:
    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def catalog(self) -> Catalog:
        return self._state.catalog

    @property
    def model_stats(self) -> StatsOfModels:
        """The learned figures, to be kept across restarts."""
        return self._state.model_stats

    # Memory

    @property
    def available(self) -> Mapping[Place, Bytes]:
        """Memory of a device that other programs leave, if measured."""
        return self._state.available

    @property
    def limits(self) -> Mapping[Place, Bytes]:
        """What models may use now of each device with a budget."""
        return self._state.limits

    def footprint(self, model: ModelName) -> Footprint | None:
        """What it counts as while it is loaded; None: unknown, so it takes a whole device."""
        known = self._state.models.get(model)
        return footprint(known) if known else None

    def needs(self, model: ModelName, gpus: tuple[Place, ...] = ()) -> Mapping[Place, Bytes]:
        """The memory that a load of this model takes, on these cards if they were chosen; none without budgets."""
        known = self._state.models.get(model)
        return needs_on(self._state, known, gpus or known.gpus) if known else NOTHING

    def may_load_beside_all(self, model: ModelName) -> bool:
        """Is it not loaded, does no request wait, and does it fit beside every model that is loaded?"""
        state, wanted = self._state, self._state.models[model]
        choices = card_choices(state, wanted)
        loaded = {each.name: each for each in state.with_process() if each.phase is not Phase.ASLEEP}
        return not state.queue and model not in loaded and not refusal(state, wanted, [*loaded.values()], choices)

    @property
    def yields(self) -> Mapping[bool, YieldRequested]:
        """For an operator (False) and for a program (True)."""
        return self._state.yields

    # Views

    def view(self, now: Instant) -> View:
        """Without cold models that have not failed and that no request waits for: nearly all of 10,000."""
        return snapshot(self._state, now, self._state.shown())

    def view_of_all(self, now: Instant) -> View:
        """With every model: for lists of all models."""
        return snapshot(self._state, now, self._state.models.values())

    def view_of_each(self, view: View) -> Iterator[ModelView]:
        """Every model in turn, as in the view if it is there: for long lists. Without those removed meanwhile."""
        shown = {model.name: model for model in view.models}
        for name in [*self._state.models]:
            if (model := self._state.models.get(name)) is not None:
                yield shown.get(name) or snapshot_of(self._state, model, view.now)

    def view_of(self, model: ModelName, now: Instant) -> ModelView:
        """One model, cold or not."""
        return snapshot_of(self._state, self._state.models[model], now)

    def why(self, model: ModelName, now: Instant) -> str:
        """The view's sentence about one model."""
        return why(self._state, self._state.models[model], now)

    # Models and requests

    def phase_of(self, model: ModelName) -> Phase:
        """Cold if it was removed meanwhile."""
        known = self._state.models.get(model)
        return known.phase if known else Phase.COLD

    def ready_server(self, model: ModelName) -> Upstream | None:
        """The server of a ready model; None: it is not ready."""
        known = self._state.models[model]
        return known.upstream if known.phase is Phase.READY else None

    def is_running(self, model: ModelName) -> bool:
        return self._state.models[model].phase is Phase.READY

    def last_used(self) -> ModelName | None:
        """The ready model that was used last; None: no model is ready."""
        ready = self._state.in_phase(Phase.READY)
        latest = max(ready, key=lambda model: (bool(model.leases), model.idle_since), default=None)
        return latest.name if latest else None

    def requests(self, model: ModelName) -> int:
        """Requests in flight and waiting."""
        return len(self._state.models[model].leases) + self._state.queue.count(model)

    def waits_for(self, ticket: TicketId) -> ModelName | None:
        """The model that a ticket waits for; None: it does not wait."""
        return self._state.queue.model_of.get(ticket)

    def wants_prompt(self, ticket: TicketId, tokens: int) -> bool:
        """Does it matter what was computed for the prompt of this lease? `tokens` includes the answer."""
        model = self._state.leases.get(ticket)
        if model is None or not model.keeps_conversations:
            return False
        known = model.conversations
        return tokens >= LEAST_SAMPLE or known.longest is None or bool(known.restored and known.restored.unproven)

    def draining(self) -> list[ModelName]:
        """The models that are to be unloaded when their last requests have ended."""
        return [model.name for model in self._state.in_phase(Phase.DRAINING)]

    def draining_since(self, model: ModelName) -> Instant | None:
        """Since when the model drains; None: it does not."""
        known = self._state.models[model]
        return known.since if known.phase is Phase.DRAINING else None

    def in_use(self) -> list[InUse]:
        """Servers with requests in flight."""
        models = [*self._state.in_phase(Phase.READY), *self._state.in_phase(Phase.DRAINING)]
        return [
            InUse(model.name, model.launch, model.upstream, model.spec.recipe.check_endpoint)
            for model in models
            if model.leases and model.launch is not None and model.upstream is not None
        ]

    def queue_length(self, model: ModelName) -> int:
        """Requests in flight and waiting; 0 if none waits."""
        return self.requests(model) if self._state.queue.count(model) else 0

    def last_left_at(self, model: ModelName) -> Instant:
        """When the last request to its current process ended; LONG_AGO if there was none."""
        known = self._state.models.get(model)
        return known.idle_since if known and known.served else LONG_AGO

    # Handover

    def may_hand_over(self) -> bool:
        """Was a handover requested, and is every server ready, draining or asleep?"""
        state = self._state
        return state.is_handing_over and not (state.in_phase(Phase.LOADING) or state.in_phase(Phase.UNLOADING))

    def handover(self, now: Instant) -> Handover:
        """What the next process needs to decide as this one would have; `may_hand_over` must hold."""
        assert self.may_hand_over()
        return export(self._state, now)

    # Settings

    def warnings(self) -> list[str]:
        """Settings that cannot be met, as far as load times are known."""
        return [*unkept_max_wait(self._state)]
