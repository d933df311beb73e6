"""A request of another program's API becomes the request that a model server understands.

It is decoded and encoded at once, so its size and its parts are limited before: to what takes less than a tenth of a
second with the default of `limits.jsonBody`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from hotseat.errors import ClientError, Forbidden, TooLarge, UnknownModel, UnsupportedEncoding, did_you_mean
from hotseat.ollama.names import configured_name
from hotseat.relay.http.json_bodies import SMALL, check_values
from hotseat.relay.routing.model_name import MANAGEMENT, UNREADABLE, name_for_v1, shortened, unreadable
from hotseat.relay.routing.path_rules import LOADS
from hotseat.relay.routing.paths import without_slash

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import NamedModel
    from hotseat.identifiers import Bytes
    from hotseat.ollama.requests import Asked
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.request import Request

MOST_OBJECTS = 50_000
"""Braces inside texts count too, as in json_bodies.py."""


def translate(request: Request, context: Context) -> bool:
    """Returns whether a model server gets it. Else it only loads or unloads a model, and is hotseat's own to answer."""
    most = context.policy.limits.json_body // 2
    asked, catalog = _allowed(_read(request, most), request, context), context.dispatcher.catalog
    name = configured_name(asked.translation.model, catalog)
    named_model = _named(name, catalog)
    is_ours = asked.members is None
    destination = replace(
        request.destination,
        kind=MANAGEMENT if is_ours else request.destination.kind,
        target=without_slash(request.head.target.partition(b"?")[0]) if is_ours else asked.target,
        named_model=named_model,
        rule=LOADS if is_ours else context.policy.paths.of_model(request.head.method, asked.target),
    )
    context.policy.check_may_ask(request.verdict, destination)
    if is_ours or asked.target != request.destination.target:
        request.send_to(destination)
    request.destination = destination
    name = name or named_model.name
    request.body.replace(asked.load(name, request.client) if is_ours else asked.body(name))
    if request.body.counted:
        context.bodies.count(request.body)
    if not is_ours:
        request.translation = asked.translation
    return not is_ours


def _allowed(asked: Asked, request: Request, context: Context) -> Asked:
    """A page that may only use models does not decide how long they stay; raises if it asks for nothing else."""
    keep_alive = asked.translation.keep_alive
    if keep_alive is None or not context.policy.cors.is_confined(request.head):
        return asked
    if asked.members is None and keep_alive.seconds == 0:
        raise Forbidden("pages of this origin may use models, but not unload them. Add the origin to allowedOrigins.")
    return asked.without_keep_alive()


def _read(request: Request, most: Bytes) -> Asked:
    """Raises ClientError."""
    if request.head.is_encoded:
        raise UnsupportedEncoding("the body is compressed, so it cannot be translated. Send it uncompressed.")
    if request.body.form is not None or request.body.is_spooled:
        raise ClientError("the request body must be JSON")
    body = request.body.whole()
    if len(body) > SMALL:
        check_values(body)
        if len(body) > most or body.count(b"{") > MOST_OBJECTS:
            text = (
                f"the request body has more than {most:,} bytes (half of limits.jsonBody) or {MOST_OBJECTS:,} objects"
            )
            raise TooLarge(f"{text}. Send less.")
    assert request.destination.endpoint is not None
    try:
        return request.destination.endpoint.read(body)
    except msgspec.ValidationError as problem:
        raise ClientError(f"the request body is not a request of Ollama's API: {problem}") from problem
    except UNREADABLE as problem:
        raise unreadable(problem, body) from problem


def _named(name: str, catalog: Catalog) -> NamedModel:
    """The error is Ollama's: clients recognise it by its text."""
    if named_model := (catalog.named_model(name) if name else name_for_v1(None, catalog)):
        return named_model
    short = shortened(name)
    hint = did_you_mean(short, catalog.names())
    raise UnknownModel(f"model '{short}' not found", f".{hint}" if hint else "")
