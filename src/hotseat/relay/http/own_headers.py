"""What we say ourselves in the head of an answer, beside what the model server says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import ModelSpec
from hotseat.error_bodies import one_line

if TYPE_CHECKING:
    from hotseat.catalog.named_models import Servable
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Seconds
    from hotseat.relay.exchange.request import Request

WORTH_TELLING_S: Seconds = 0.1
"""Who waited for less does not wonder why."""


def told_name(request: Request) -> bytes:
    """A host that passed it on named it: to it our answers look the same every time, and are recognised."""
    return b"" if request.verdict.from_host else request.id


def told_crowd(request: Request, spec: Servable | None, dispatcher: Dispatcher) -> int:
    """A host that passed it on may send the next one elsewhere, if there is a line here."""
    if not request.verdict.from_host or not isinstance(spec, ModelSpec):
        return 0
    return dispatcher.crowd(spec.name)


def lines_about_waiting(waited_for: str, waited_s: Seconds) -> list[bytes]:
    """After the fact, for whoever wonders why it took so long."""
    if not waited_for or waited_s < WORTH_TELLING_S:
        return []
    return [b"Hotseat-Waited: %.3f" % waited_s, b"Hotseat-Why: %b" % one_line(waited_for, 200).encode()]
