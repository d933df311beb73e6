"""Resolves a request's model from its path and body, chooses a selector's target, and checks what may start a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, assert_never

from hotseat.catalog.named_models import RemoteModel, Strategy
from hotseat.errors import ClientError, NotRunning
from hotseat.relay.routing.model_name import MODEL_IN_BODY, name_for_v1
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.catalog.named_models import NamedModel, Selector, Servable
    from hotseat.catalog.spec import ModelSpec
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import ModelName, Upstream
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.exchange.request import Request

RUNNING = (Phase.READY, Phase.LOADING)
WARM = (*RUNNING, Phase.ASLEEP)
LEAVING = (Phase.DRAINING, Phase.UNLOADING, Phase.BACKOFF)


def named_model_of(request: Request, dispatcher: Dispatcher) -> NamedModel:
    """The model it names, or else the running one."""
    destination, catalog = request.destination, dispatcher.catalog
    if destination.named_model is not None:
        return destination.named_model
    if destination.kind is MODEL_IN_BODY:
        named = request.named_model() or destination.named
        if named is not None and (named_model := catalog.named_model(named)):
            return named_model
        if request.must_name_model or named is not None:
            return name_for_v1(named, catalog)
    return in_use(dispatcher)


def in_use(dispatcher: Dispatcher) -> ModelSpec:
    """Outside /v1/ a request that names no model goes to the one in use; it never starts or swaps one."""
    latest = dispatcher.questions.last_used()
    if latest is None:
        leaving = ", ".join(dispatcher.questions.draining())
        state = f", and hotseat is unloading {leaving}" if leaving else " and none is running"
        raise ClientError(f"the request names no model{state}. Name one with ?model=.")
    return dispatcher.catalog.resolve(latest)


def check_may_start(spec: ModelSpec, request: Request, rules: Policy, dispatcher: Dispatcher) -> None:
    if rules.may_start(request.head, request.destination) or dispatcher.questions.is_running(spec.name):
        return
    state = not_ready(spec, dispatcher)
    raise NotRunning(f"{state}, and a path of this kind does not start it (upstream.ignorePaths)")


def running_server(spec: ModelSpec, dispatcher: Dispatcher) -> Upstream:
    """Without a lease: such a request, to a bare address or for an ignored websocket, neither starts nor keeps it."""
    server = dispatcher.questions.ready_server(spec.name)
    if server is None:
        state = not_ready(spec, dispatcher)
        raise NotRunning(f"{state}, and a websocket does not start it (compat.ignoreWebsockets)")
    return server


def not_ready(spec: ModelSpec, dispatcher: Dispatcher) -> str:
    """While it drains, it is still in the list of running models."""
    is_leaving = dispatcher.questions.phase_of(spec.name) is Phase.DRAINING
    return f"{spec.name} is {'being unloaded' if is_leaving else 'not running'}"


# Selectors


def choose(
    selector: Selector, targets: Sequence[Servable], models: StateOfModels, peer_requests: Mapping[ModelName, int]
) -> Servable:
    """The target for one request. `peer_requests` counts the requests at models of peers."""
    match selector.strategy:
        case Strategy.PIN:
            return targets[0]
        case Strategy.WARM:
            return _warmest(targets, TargetStates(models, peer_requests))
        case Strategy.SPILLOVER:
            return _shortest_queue(targets, TargetStates(models, peer_requests), selector.spillover)
        case _:
            assert_never(selector.strategy)


class StateOfModels(Protocol):
    """What a selector asks of the scheduler."""

    def phase_of(self, model: ModelName) -> Phase: ...

    def requests(self, model: ModelName) -> int: ...


class TargetStates:
    """The state of each target."""

    def __init__(self, models: StateOfModels, peer_requests: Mapping[ModelName, int]) -> None:
        self._models, self._peer_requests = models, peer_requests

    def users(self, target: Servable) -> int:
        """Requests in flight or waiting."""
        if isinstance(target, RemoteModel):
            return self._peer_requests.get(target.name, 0)
        return self._models.requests(target.name)

    def phase(self, target: Servable) -> Phase | None:
        """None for a model of a peer, whose phase is unknown."""
        return None if isinstance(target, RemoteModel) else self._models.phase_of(target.name)


def _warmest(targets: Sequence[Servable], states: TargetStates) -> Servable:
    warm = (target for phase in WARM for target in targets if states.phase(target) is phase)
    return next(warm, targets[0])


def _shortest_queue(targets: Sequence[Servable], states: TargetStates, most: int) -> Servable:
    """Fill running targets in order, then start the next one; if all are full, the one with the fewest requests."""
    open_ones = [target for target in targets if states.phase(target) not in LEAVING] or targets
    in_use = [target for target in open_ones if states.phase(target) in RUNNING or states.users(target)]
    not_full = [target for target in in_use if states.users(target) < most]
    next_ones = not_full or [target for target in open_ones if target not in in_use]
    return next_ones[0] if next_ones else min(open_ones, key=states.users)
