"""PURE: to which trace a request belongs, by the `traceparent` header of W3C Trace Context, and which are recorded."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from hotseat.identifiers import Instant

NAME, STATE = b"traceparent", b"tracestate"
"""The second holds what tracing systems add to the first; it means nothing without a valid first one."""
SAMPLED = 1
_parts = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch
FIRST_VERSION, NO_VERSION = b"00", b"ff"
LINES = (b"\r\ntraceparent: ", b"\r\nTraceparent: ")
_usual = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?=\r\n)").match
BY_PARENT = "parentbased_"
USUAL = "parentbased_always_on"
SHARES = {"always_on": 1.0, "always_off": 0.0}
BY_SHARE = "traceidratio"
COMPARED = 1 << 64
"""The lower half of a trace's id is compared, so that all programs that use the same share choose the same traces."""


class Parent(NamedTuple):
    """The span of another program that a request belongs to."""

    trace_id: int
    span_id: int
    is_sampled: bool
    """Does the other program record the trace?"""


def parse(value: bytes | None) -> Parent | None:
    """None if there is no valid one: then the request begins a new trace."""
    found = _parts(value or b"")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == NO_VERSION or (version == FIRST_VERSION and more is not None):  # only later versions may add parts
        return None
    parent = Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & SAMPLED))
    return parent if parent.trace_id and parent.span_id else None


def split(head: bytes) -> tuple[bytes, bytes]:
    """A head without its valid traceparent, marked as such, and the value; the whole head if it has no usual one."""
    for line in LINES:
        if (begin := head.find(line)) >= 0 and (found := _usual(head, begin + len(line))):
            return head[:begin] + head[found.end() :] + NAME, found[0]  # no head goes on after its blank line
    return head, b""


def line_of(value: bytes) -> bytes:
    return b"%b: %b\r\n" % (NAME, value)


class TraceContext(Struct):
    """The place of one request in a trace, with the ids that its spans will have."""

    trace_id: int
    parent: Parent | None
    """None: the trace begins here."""
    root_id: int
    """Of the span that covers the whole request."""
    forward_id: int
    """Of the span for the work of the model server or the other host: the parent of their spans."""
    is_sampled: bool
    queued_because: str = ""
    """Why the request had to wait when it arrived; empty if it did not."""
    first_token_at: Instant | None = None
    """None: the response was no stream, or had no data."""

    @property
    def line(self) -> bytes:
        """The header line for the upstream."""
        sampled = SAMPLED if self.is_sampled else 0
        return line_of(b"00-%032x-%016x-%02x" % (self.trace_id, self.forward_id, sampled))


class Sampler(Protocol):
    def __call__(self, trace_id: int, parent: Parent | None) -> bool:
        """Is this trace recorded?"""


def sampler_of(name: str, argument: str) -> Sampler:
    """`name` and `argument` are the values of the variables; ValueError says what they must be."""
    name = name.strip() or USUAL
    kind = name.removeprefix(BY_PARENT)
    if kind not in (*SHARES, BY_SHARE):
        raise ValueError(
            f"OTEL_TRACES_SAMPLER must be {', '.join(SHARES)} or {BY_SHARE}, or {BY_PARENT} with one of them"
        )
    share = _share(argument) if kind == BY_SHARE else SHARES[kind]
    return partial(_samples, below=round(share * COMPARED), asks_parent=name != kind)


def _share(argument: str) -> float:
    try:
        share = float(argument or "1")
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ValueError("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1")
    return share


def _samples(trace_id: int, parent: Parent | None, *, below: int, asks_parent: bool) -> bool:
    if parent is not None and asks_parent:
        return parent.is_sampled
    return trace_id % COMPARED < below
