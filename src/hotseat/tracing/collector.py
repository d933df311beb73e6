"""PURE: where traces go, from the environment variables that OpenTelemetry defines.

An error names the variable and what it must be, and quotes no value: a header may be a key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from hotseat.catalog.template import address_of
from hotseat.tracing.traceparent import sampler_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Address, Seconds
    from hotseat.tracing.traceparent import Sampler

PREFIX, FOR_TRACES = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
"""A variable with the second prefix replaces the one with the first."""
USUAL_PATH = "/v1/traces"
PROTOCOL = "http/protobuf"
USUAL_TIMEOUT_MS = "10000"
EXPORTERS, COMPRESSIONS = ("", "otlp", "none"), ("", "none", "gzip")
_is_field = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+: ?[\t\x20-\x7e]*").fullmatch


class Collector(NamedTuple):
    address: Address
    path: str
    lines: bytes
    """Further header lines, each with its CRLF."""
    within_s: Seconds
    service: Mapping[str, str]
    """What is said about this hotseat in every trace."""
    samples: Sampler
    is_compressed: bool = False
    certificate: str | None = None
    """The file with the authority that its certificate must be from; None: those that this machine trusts."""


def collector_of(environ: Mapping[str, str]) -> Collector | None:
    """None: no collector is named, or traces are disabled; ValueError says which variable is wrong."""
    is_disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if is_disabled or exporter == "none" or not _value(environ, "ENDPOINT"):
        return None
    if exporter not in EXPORTERS:
        raise ValueError("OTEL_TRACES_EXPORTER must be otlp or none")
    if _value(environ, "COMPRESSION") not in COMPRESSIONS:
        raise ValueError(f"{PREFIX}COMPRESSION must be gzip or none")
    if _value(environ, "PROTOCOL") not in ("", PROTOCOL):
        raise ValueError(f"{PREFIX}PROTOCOL must be {PROTOCOL}, which is the only protocol that hotseat exports with")
    return Collector(
        *_endpoint(environ),
        lines=b"".join(_lines(_value(environ, "HEADERS"))),
        within_s=_timeout_s(_value(environ, "TIMEOUT") or USUAL_TIMEOUT_MS),
        service=_service(environ),
        samples=sampler_of(environ.get("OTEL_TRACES_SAMPLER", ""), environ.get("OTEL_TRACES_SAMPLER_ARG", "")),
        is_compressed=_value(environ, "COMPRESSION") == "gzip",
        certificate=_value(environ, "CERTIFICATE") or None,
    )


def _value(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(FOR_TRACES + name) or environ.get(PREFIX + name) or "").strip()


def _endpoint(environ: Mapping[str, str]) -> tuple[Address, str]:
    """The variable for traces has the whole URL; the path belongs to the address as a prefix."""
    own = environ.get(f"{FOR_TRACES}ENDPOINT", "").strip()
    try:
        if own:
            address = address_of(own)
            return address._replace(prefix=""), address.prefix or "/"
        return address_of(_value(environ, "ENDPOINT")), USUAL_PATH
    except ValueError as problem:
        raise ValueError(f"{FOR_TRACES if own else PREFIX}ENDPOINT {problem}") from None


def _lines(headers: str) -> list[bytes]:
    """`name=value,…`, each value URL-encoded."""
    pairs = [pair.partition("=") for pair in headers.split(",") if pair.strip()]
    fields = [f"{name.strip()}: {unquote(value.strip())}" for name, _, value in pairs]
    if not all(equals for _, equals, _ in pairs) or not all(map(_is_field, fields)):
        raise ValueError(f"{PREFIX}HEADERS must be name=value, separated by commas, with URL-encoded values")
    return [f"{field}\r\n".encode() for field in fields]


def _timeout_s(milliseconds: str) -> Seconds:
    if not milliseconds.isdecimal() or not int(milliseconds):
        raise ValueError(f"{PREFIX}TIMEOUT must be a number of milliseconds")
    return int(milliseconds) / 1000


def _service(environ: Mapping[str, str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if pair.strip()]
    said = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    name = environ.get("OTEL_SERVICE_NAME") or said.get("service.name") or "hotseat"
    return {**said, "service.name": name}
