"""PURE: the header fields of a request from one fleet host to another: sender, client, role."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.identifiers import ClientId, HostName

FROM_HOST, FOR_CLIENT, FOR_MODEL = b"hotseat-from", b"hotseat-client", b"hotseat-model"
FOR_ROLE, PROOF = b"hotseat-role", b"hotseat-proof"
INFERENCE, OPERATE, ADMIN = Role.INFERENCE.value.encode(), Role.OPERATE.value.encode(), Role.ADMIN.value.encode()
RESTART = "/hotseat/restart"
"""The only path for which a host may state the role admin."""
BLANKS = b" \t"
"""The HTTP parser leaves these after a value."""


def said_by(*parts: bytes) -> bytes:
    """The text to sign: sender, method, target, model, client, role. None of them can contain the newline separator.

    The body is not included: whoever could change it in transit could also read it; TLS protects against both.
    """
    return b"\n".join(parts)


def lines_for_host(me: HostName, client: ClientId, role: bytes) -> bytes:
    """The header lines of a forwarded request, except model and proof."""
    said = {FROM_HOST: me.encode(), FOR_CLIENT: client_in_line(client), FOR_ROLE: role}
    return b"".join(b"%b: %b\r\n" % line for line in said.items())


def client_in_line(client: ClientId) -> bytes:
    """As the receiver reads it: two clients never have the same, in whatever script their names are."""
    return quote(client).encode()


def line_of_proof(proof: bytes) -> bytes:
    return b"%b: %b\r\n" % (PROOF, proof)
