"""Headers that hotseat adds to a model server's response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import ModelSpec
from hotseat.error_bodies import one_line

if TYPE_CHECKING:
    from hotseat.catalog.named_models import Servable
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Seconds
    from hotseat.relay.exchange.request import Request

WORTH_REPORTING_S: Seconds = 0.1
"""Shorter waits need no explanation."""


def model_name_header(request: Request) -> bytes:
    """Empty for a forwarding host, which knows the id: our heads then stay the same and its cache recognises them."""
    return b"" if request.verdict.from_host else request.id


def queue_length_header(request: Request, spec: Servable | None, dispatcher: Dispatcher) -> int:
    """Lets a forwarding host send its next request elsewhere if there is a queue here."""
    if not request.verdict.from_host or not isinstance(spec, ModelSpec):
        return 0
    return dispatcher.queue_length(spec.name)


def lines_about_waiting(waited_for: str, waited_s: Seconds) -> list[bytes]:
    """Explains to the client why it had to wait."""
    if not waited_for or waited_s < WORTH_REPORTING_S:
        return []
    return [b"Hotseat-Waited: %.3f" % waited_s, b"Hotseat-Why: %b" % one_line(waited_for, 200).encode()]
