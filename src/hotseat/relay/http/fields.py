"""PURE: what the heads of requests and responses have in common."""

from __future__ import annotations

Field = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade"
    b" proxy-authenticate proxy-authorization".split()
)
SWITCHING = 101
SWITCH = [b"Connection: Upgrade", b"Upgrade: websocket"]


class FoundHead:
    """Collects what llhttp finds in a head."""

    is_complete = False

    def __init__(self) -> None:
        self.first = b""
        """The target of a request, or the reason of a response."""
        self.fields: list[Field] = []

    def on_url(self, part: bytes) -> None:
        self.first += part

    on_status = on_url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def connection_options(fields: list[Field]) -> frozenset[bytes]:
    """What `Connection` names: options, and fields that describe one connection and are not forwarded."""
    values = b",".join(value for name, value in fields if name.lower() == b"connection")
    return frozenset(token.strip().lower() for token in values.split(b","))


def keeps_alive(version: str, options: frozenset[bytes]) -> bool:
    """May another message follow on the connection? HTTP/1.0 must say so, HTTP/1.1 must say otherwise."""
    return b"close" not in options if version == "1.1" else b"keep-alive" in options
