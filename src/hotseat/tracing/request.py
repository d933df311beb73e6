"""What a trace says about a finished request: times, figures and reasons, never its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hotseat.activity.recent import Tokens
    from hotseat.identifiers import Instant, ModelName
    from hotseat.tracing.swap_steps import Step
    from hotseat.tracing.traceparent import TraceContext


class TracedRequest(NamedTuple):
    trace: TraceContext
    id: str
    model: ModelName
    method: str
    path: str
    """As the model server gets it, without its query."""
    status: int
    """Sent to the client; 499 if it disconnected, 0 if no response began."""
    began: Instant
    granted_at: Instant | None
    """None: it was never sent to a server."""
    ended: Instant
    key: str = ""
    """The name of the client's API key."""
    tokens: Tokens | None = None
    reason: str = ""
    """What it waited for."""
    sent_to_host: str = ""
    """The fleet host that served it."""
    from_host: str = ""
    """The fleet host that forwarded it here."""
    steps: tuple[Step, ...] = ()
    """What was done for its model while it waited."""
    epoch_ns: int = 0
    """Wall-clock time when the clock of all other times was 0."""
