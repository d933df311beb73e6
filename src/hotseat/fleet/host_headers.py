"""PURE: the header fields by which one host of a fleet asks another: who asks, for whom, with which role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.identifiers import ClientId, HostName

FROM_HOST, FOR_CLIENT, FOR_MODEL = b"hotseat-from", b"hotseat-client", b"hotseat-model"
FOR_ROLE, PROOF = b"hotseat-role", b"hotseat-proof"
INFERENCE, OPERATE = Role.INFERENCE.value.encode(), Role.OPERATE.value.encode()
BLANKS = b" \t"
"""The parser of HTTP heads leaves those after a value."""


def said_by(*parts: bytes) -> bytes:
    """Sender, method, target, model, client, role: none of them can hold the line end that is between them.

    The body is not among them: whoever could change it on its way could as well read it, and TLS is for that.
    """
    return b"\n".join(parts)


def lines_for_fellow(me: HostName, client: ClientId, role: bytes) -> bytes:
    """What goes along with a request that is passed on, beside its model and its proof."""
    said = {FROM_HOST: me.encode(), FOR_CLIENT: client_in_line(client), FOR_ROLE: role}
    return b"".join(b"%b: %b\r\n" % line for line in said.items())


def client_in_line(client: ClientId) -> bytes:
    """As it is read on the other side."""
    return client.encode("latin-1", "replace").strip(BLANKS)


def line_of_proof(proof: bytes) -> bytes:
    return b"%b: %b\r\n" % (PROOF, proof)
