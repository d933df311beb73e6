"""PURE: header fields of requests and responses: which of them describe one connection only."""

from __future__ import annotations

Field = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"proxy-authenticate",
        b"proxy-authorization",
    )
)
SWITCHING = 101
SWITCH = [b"Connection: Upgrade", b"Upgrade: websocket"]


def named_in_connection(fields: list[Field]) -> frozenset[bytes]:
    """The fields and options that `Connection` names: they describe one connection and are not forwarded."""
    values = b",".join(value for name, value in fields if name.lower() == b"connection")
    return frozenset(token.strip().lower() for token in values.split(b","))


def keeps_alive(version: str, known: dict[bytes, bytes], fields: list[Field]) -> bool:
    """May another message follow on the connection? HTTP/1.0 must say so, HTTP/1.1 must say otherwise."""
    options = named_in_connection(fields) if b"connection" in known else ()
    return b"close" not in options if version == "1.1" else b"keep-alive" in options
