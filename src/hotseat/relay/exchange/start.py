"""The first step of an exchange: find out which model the request names, and choose its target."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotseat.catalog.named_models import FleetModel, RemoteModel, Selector
from hotseat.catalog.spec import UNCHANGED, BodyChanges
from hotseat.errors import UnknownModel
from hotseat.fleet.route import ThisHost
from hotseat.relay.exchange.fleet_hop import FleetHop
from hotseat.relay.exchange.request_translation import translate
from hotseat.relay.exchange.targets import MANAGEMENT_API, FleetHost, LocalModel, PeerModel
from hotseat.relay.routing.model_name import BARE_ADDRESS, IDLE, MANAGEMENT
from hotseat.relay.routing.route import choose, named_model_of, running_server

if TYPE_CHECKING:
    from hotseat.catalog.named_models import Servable
    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.route import Route
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.exchange import Exchange


def start(exchange: Exchange) -> None:
    """Raises HotseatError if the request is refused."""
    request, context = exchange.request, exchange.context
    if request.destination.kind is MANAGEMENT:
        return _ask_management(exchange)
    if request.destination.kind is BARE_ADDRESS:
        return _ask_running_server(exchange)
    is_for_server = request.destination.endpoint is None or translate(request, context)
    named_model = named_model_of(request, context.dispatcher)
    if request.verdict.account is not None:
        exchange.accounting.charge(request.verdict.account, named_model.name)
    if not is_for_server:  # it only loads or unloads one
        return _ask_management(exchange)
    _audit(exchange)
    spec = _chosen(named_model, context) if isinstance(named_model, Selector) else named_model
    exchange.accounting.model = spec.name
    if context.hosts is not None and not isinstance(spec, RemoteModel) and _may_travel(exchange):
        return _find_host(exchange, context.hosts, spec)
    if context.hosts is not None and request.verdict.from_host:
        context.hosts.check_taken(spec.name)
    return _serve_here(exchange, spec)


def _audit(exchange: Exchange) -> None:
    """Record it if it is an action. Raises if nobody could prove later what is done now."""
    if exchange.request.destination.rule.is_action:
        context, exchange.accounting.is_audited = exchange.context, True
        context.audit.begin(exchange.request, exchange.client.peer, is_required=context.policy.authenticates)


def _ask_management(exchange: Exchange) -> None:
    if exchange.request.destination.rule.is_feed:
        exchange.accounting.open_feed()
    _audit(exchange)
    exchange.target = MANAGEMENT_API
    MANAGEMENT_API.start(exchange)


def _ask_running_server(exchange: Exchange) -> None:
    """To look at the bare address is no use of a model: it keeps none loaded and is in no list of requests."""
    request, dispatcher = exchange.request, exchange.context.dispatcher
    if (model := dispatcher.questions.last_used()) is None:
        request.send_to(replace(request.destination, kind=MANAGEMENT, target=IDLE))
        return _ask_management(exchange)
    if request.verdict.account is not None:
        request.verdict.account.check_may_use(model)
    spec = dispatcher.catalog.resolve(model)
    exchange.target = target = LocalModel(spec)
    exchange.accounting.model = spec.name
    exchange.accounting.granted_at = exchange.context.now()
    return target.connect_to(exchange, running_server(spec, dispatcher))


def _chosen(selector: Selector, context: Context) -> Servable:
    """The model that a selector means now."""
    targets = context.dispatcher.catalog.choices(selector)
    return choose(selector, targets, context.dispatcher.questions, context.peer_requests)


def _serve_here(exchange: Exchange, spec: Servable) -> None:
    """At a local model, or a peer's."""
    if isinstance(spec, FleetModel):
        raise UnknownModel(f'model "{spec.name}" is not defined on this host.')
    exchange.target = PeerModel(spec) if isinstance(spec, RemoteModel) else LocalModel(spec)
    if spec.changes is not UNCHANGED:
        _change_body(exchange, spec.changes)
    exchange.request.members = None
    exchange.target.start(exchange)


def _change_body(exchange: Exchange, changes: BodyChanges) -> None:
    exchange.request.change_body(changes)
    if exchange.request.body.counted_on_disk:  # it may be back in memory
        exchange.context.bodies.count(exchange.request.body)


# The fleet


def _may_travel(exchange: Exchange) -> bool:
    """Excludes forwarded requests, and those that must not start a model."""
    request = exchange.request
    return not request.verdict.from_host and exchange.context.policy.may_start(request.head, request.destination)


def _find_host(exchange: Exchange, hosts: HostSelector, spec: ModelSpec | FleetModel) -> None:
    exchange.request.members = None
    go = partial(_go, exchange, spec)
    dispatcher, client = exchange.context.dispatcher, exchange.request.client
    exchange.accounting.hop = FleetHop(hosts, dispatcher, exchange, spec.name, client, go)
    exchange.accounting.hop.find()


def _go(exchange: Exchange, spec: ModelSpec | FleetModel, where: Route) -> None:
    """The other host changes the body itself; only a selector's name must be replaced here."""
    if isinstance(where, ThisHost):
        return _serve_here(exchange, spec)
    if spec.changes.model_name == spec.name:
        _change_body(exchange, BodyChanges(model_name=spec.name))
    exchange.target = FleetHost(spec.name, where)
    return exchange.target.start(exchange)
