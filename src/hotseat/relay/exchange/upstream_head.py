"""The head that an upstream gets: the client's fields, what hotseat adds, and the framing of the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.fleet.host_headers import client_in_line, line_of_proof, lines_for_host, said_by
from hotseat.relay.access.api_keys import line_about_key
from hotseat.relay.access.host_requests import line_for_model, model_in_line, stated_role
from hotseat.relay.http.forwarded_head import framed

if TYPE_CHECKING:
    from hotseat.fleet.route import OtherHost
    from hotseat.identifiers import Address, ModelName
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.fleet_hop import Hosts
    from hotseat.relay.exchange.request import Request


def upstream_head(context: Context, request: Request, address: Address, peer: str, api_key: str = "") -> bytes:
    admission = request.admission
    if admission.sent_to is address and admission.sent_for == peer and not api_key:
        lines = admission.sent_as
    else:
        lines = _remembered_lines(context, request, address, peer, api_key)
    return framed(lines, request.head.id_header, request.id, request.stated_length)


def host_head(context: Context, request: Request, where: OtherHost, peer: str, model: ModelName) -> bytes:
    """The same for a fleet host, with what we know already and a proof for this request only."""
    assert context.hosts is not None
    lines = _remembered_lines(context, request, where.address, peer, hosts=context.hosts)
    lines += line_for_model(model) + line_of_proof(_proof(context, context.hosts, request, where, model))
    return framed(lines, request.head.id_header, request.id, request.stated_length)


def _proof(context: Context, hosts: Hosts, request: Request, where: OtherHost, model: ModelName) -> bytes:
    said = said_by(
        hosts.name.encode(),
        request.head.method,
        where.address.prefix.encode() + request.destination.target,
        model_in_line(model),
        client_in_line(request.client),
        stated_role(request.verdict, has_keys=context.policy.has_keys),
    )
    return hosts.signer.proof(where.host, said)


def _remembered_lines(
    context: Context, request: Request, address: Address, peer: str, api_key: str = "", hosts: Hosts | None = None
) -> bytes:
    """An address always or never belongs to a fleet host, so the two kinds of lines are never mixed up."""
    admission = request.admission
    if api_key:  # never kept: the lines have the peer's key in them
        return _lines(context, request, address, peer, api_key, hosts)
    if admission.sent_to is not address or admission.sent_for != peer:
        admission.sent_as = _lines(context, request, address, peer, "", hosts)
        admission.sent_to, admission.sent_for = address, peer
    return admission.sent_as


def _lines(context: Context, request: Request, address: Address, peer: str, api_key: str, hosts: Hosts | None) -> bytes:
    trusts = bool(request.verdict.from_host) or context.policy.trusts(peer)
    lines = request.upstream_lines(address, peer, context.scheme, trust_proxies=trusts, api_key=api_key)
    if address is context.management:
        return lines + line_about_key(request.verdict)
    if hosts is None:
        return lines
    role = stated_role(request.verdict, has_keys=context.policy.has_keys)
    return lines + lines_for_host(hosts.name, request.client, role)
