"""PURE: which target of a selector serves a request, by the scheduler's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from hotseat.catalog.named_models import RemoteModel, Strategy
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.catalog.named_models import Selector, Servable
    from hotseat.identifiers import ModelName
    from hotseat.scheduling.view import View

RUNNING = (Phase.READY, Phase.LOADING)
WARM = (*RUNNING, Phase.ASLEEP)


def choose(
    selector: Selector, targets: Sequence[Servable], view: View, peer_requests: Mapping[ModelName, int]
) -> Servable:
    """The target for one request. `peer_requests` counts the requests at models of peers."""
    match selector.strategy:
        case Strategy.PIN:
            return targets[0]
        case Strategy.WARM:
            return _warmest(targets, Standing(view, peer_requests))
        case Strategy.SPILLOVER:
            return _shortest_queue(targets, Standing(view, peer_requests), selector.spillover)
        case _:
            assert_never(selector.strategy)


class Standing:
    """The state of each target."""

    def __init__(self, view: View, peer_requests: Mapping[ModelName, int]) -> None:
        self._models = {model.name: model for model in view.models}
        self._peer_requests = peer_requests

    def users(self, target: Servable) -> int:
        """Requests in flight or waiting."""
        if isinstance(target, RemoteModel):
            return self._peer_requests.get(target.name, 0)
        model = self._models[target.name]
        return model.in_flight + model.waiting

    def phase(self, target: Servable) -> Phase | None:
        """None for a model of a peer, whose phase is unknown."""
        return None if isinstance(target, RemoteModel) else self._models[target.name].phase

    def is_in_use(self, target: Servable) -> bool:
        return self.phase(target) in RUNNING or self.users(target) > 0

    def is_leaving(self, target: Servable) -> bool:
        return self.phase(target) in (Phase.DRAINING, Phase.UNLOADING, Phase.BACKOFF)


def _warmest(targets: Sequence[Servable], standing: Standing) -> Servable:
    for phase in WARM:
        for target in targets:
            if standing.phase(target) is phase:
                return target
    return targets[0]


def _shortest_queue(targets: Sequence[Servable], standing: Standing, most: int) -> Servable:
    """Fill running targets in order, then start the next one; if all are full, the one with the fewest requests."""
    open_ones = [target for target in targets if not standing.is_leaving(target)] or targets
    in_use = [target for target in open_ones if standing.is_in_use(target)]
    for target in in_use:
        if standing.users(target) < most:
            return target
    for target in open_ones:
        if target not in in_use:
            return target
    return min(open_ones, key=standing.users)
