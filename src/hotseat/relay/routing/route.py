"""Resolves a request's model from its path and body, and checks whether it may start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import ClientError, NotRunning
from hotseat.relay.routing.model_name import MODEL_IN_BODY, name_for_v1

if TYPE_CHECKING:
    from hotseat.catalog.named_models import NamedModel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Address
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.exchange.request import Request


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
    running = dispatcher.view().running()
    if not running:
        raise ClientError("the request names no model and none is running. Name one with ?model=.")
    latest = max(running, key=lambda model: model.last_used)
    return dispatcher.catalog.resolve(latest.name)


def check_may_start(spec: ModelSpec, request: Request, rules: Policy, dispatcher: Dispatcher) -> None:
    if rules.may_start(request.head, request.destination) or dispatcher.is_running(spec.name):
        return
    raise NotRunning(f"{spec.name} is not running, and a path of this kind does not start it (upstream.ignorePaths)")


def running_server(spec: ModelSpec, dispatcher: Dispatcher) -> Address:
    """Without a lease: such a request neither starts the model nor keeps it loaded."""
    model = dispatcher.view().model(spec.name)
    if model.upstream is None or not model.is_running:
        raise NotRunning(f"{spec.name} is not running, and a websocket does not start it (compat.ignoreWebsockets)")
    return model.upstream.address
