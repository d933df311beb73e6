"""The headers that a fleet host adds to a forwarded request, signed for this request alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hotseat.fleet.host_headers import said_by
from hotseat.fleet.proofs import FleetSecret, Signer
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECRET = "hush"
CHAT = "/v1/chat/completions"


def passed_on(
    model: str | None = "alpha",
    target: str = CHAT,
    *,
    method: str = "POST",
    sender: str = "a",
    to: str = "here",
    client: str = "ann",
    role: str = "inference",
    secrets: Sequence[str] = (SECRET,),
    clock: Callable[[], float] = time.time,
) -> tuple[str, ...]:
    """Header lines."""
    said = said_by(*(part.encode("latin-1") for part in (sender, method, target, model or "", client, role)))
    proof = Signer(FleetSecret(secrets), clock).proof(HostName(to), said)
    named = () if model is None else (f"Hotseat-Model: {model}",)
    fields = (f"Hotseat-From: {sender}", f"Hotseat-Client: {client}", f"Hotseat-Role: {role}", *named)
    return (*fields, f"hotseat-proof: {proof.decode()}")
