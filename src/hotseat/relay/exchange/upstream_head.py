"""The head that an upstream gets: the client's fields, what hotseat adds, and the framing of the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.fleet.host_headers import client_in_line, line_of_proof, lines_for_host, said_by
from hotseat.identifiers import ClientId
from hotseat.relay.access.api_keys import line_about_caller
from hotseat.relay.access.host_requests import line_for_model, model_in_line, stated_role
from hotseat.relay.http.fields import SWITCH
from hotseat.relay.http.forwarded_head import (
    forwarded_fields,
    framed,
    lines_about_client,
    lines_about_origin,
    upstream_lines,
)
from hotseat.tracing import traceparent

if TYPE_CHECKING:
    from hotseat.fleet.route import OtherHost
    from hotseat.identifiers import Address, ModelName
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.request_head import RequestHead

COMPRESSION = frozenset((b"accept-encoding",))
ABOUT_BODIES = frozenset((b"accept-encoding", b"content-encoding", b"content-type"))
"""Not true of a translated request; and a response must not be compressed to be translated."""
MAY_HAVE_BODY = frozenset((b"POST", b"PUT", b"PATCH"))


def upstream_head(
    context: Context,
    request: Request,
    address: Address,
    peer: str,
    api_key: str = "",
    *,
    for_host: bytes = b"",
    for_peer: bytes = b"",
) -> bytes:
    """`api_key` replaces the client's credentials; `for_host` are lines for a fleet host and this request only.

    An address always or never belongs to a fleet host, so the two kinds of remembered lines are never mixed up.
    """
    admission, body = request.admission, request.body
    if admission.sent_to is address and admission.sent_for == (peer, api_key):
        lines = admission.sent_as
    else:
        lines = _lines(context, request, address, peer, api_key, is_host=bool(for_host))
        admission.sent_to, admission.sent_for, admission.sent_as = address, (peer, api_key), lines
    length = body.size if body.size or request.head.method in MAY_HAVE_BODY else None
    if context.tracer is not None:
        lines += request.trace_by(context.tracer).line
    elif request.traceparent:
        lines += traceparent.line_of(request.traceparent)
    return framed(lines + for_host + for_peer, request.head.id_header, request.id, length)


def host_head(context: Context, request: Request, where: OtherHost, peer: str, model: ModelName) -> bytes:
    """The same for a fleet host, with what we know already and a proof for this request only."""
    assert context.hosts is not None
    said = said_by(
        context.hosts.name.encode(),
        request.head.method,
        where.address.prefix.encode() + request.destination.target,
        model_in_line(model),
        client_in_line(client_for_host(request)),
        stated_role(request.verdict, authenticates=context.policy.authenticates),
    )
    proof = line_of_proof(context.hosts.signer.proof(where.host, said))
    return upstream_head(context, request, where.address, peer, for_host=line_for_model(model) + proof)


def client_for_host(request: Request) -> ClientId:
    """For whom we ask: of an action the other host's audit shall have the name of the key."""
    holder = request.verdict.holder if request.destination.rule.is_action else ""
    return ClientId(holder) if holder else request.client


def _lines(context: Context, request: Request, address: Address, peer: str, api_key: str, *, is_host: bool) -> bytes:
    """The head without its length."""
    head, verdict = request.head, request.verdict
    trusts = bool(verdict.from_host) or context.policy.trusts(peer)
    credentials = ((b"authorization", verdict.remove_authorization), (b"x-api-key", verdict.remove_x_api_key))
    removed = frozenset([name for name, ends_here in credentials if ends_here or api_key])
    if verdict.account is not None and verdict.account.key.tokens is not None:
        removed |= COMPRESSION  # the tokens of a compressed response cannot be counted
    removed |= context.policy.sign_in_headers
    if context.tracer is not None:
        removed |= _replaced_by_trace(head)
    elif request.traceparent:
        removed |= {traceparent.NAME}
    fields = [] if request.destination.endpoint is None else [b"Content-Type: application/json"]
    removed |= ABOUT_BODIES if fields else frozenset()
    fields += [*forwarded_fields(head, removed, trusts), *lines_about_client(head, peer, context.scheme, trusts)]
    fields += lines_about_origin(head, address)
    if api_key:
        fields += [f"Authorization: Bearer {api_key}".encode(), f"x-api-key: {api_key}".encode()]
    if head.is_websocket:
        fields += SWITCH
    lines = upstream_lines(head, request.destination.target, address, fields)
    if address is context.management:
        lines += line_about_caller(verdict)
    elif is_host and context.hosts is not None:
        role = stated_role(verdict, authenticates=context.policy.authenticates)
        lines += lines_for_host(context.hosts.name, client_for_host(request), role)
    return lines


def _replaced_by_trace(head: RequestHead) -> frozenset[bytes]:
    """What other tracing systems added to a trace is passed on only if the trace goes on."""
    names = (traceparent.NAME, traceparent.STATE)
    return frozenset(names[:1] if traceparent.parse(head.known.get(traceparent.NAME)) else names)
