"""The header that says to which trace a request belongs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.tracing.traceparent import Parent, TraceContext, parse, split

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ids = st.integers(1, 2**64 - 1)


@given(trace_id=st.integers(1, 2**128 - 1), root_id=ids, forward_id=ids, is_sampled=st.booleans())
def test_what_is_sent_is_what_another_host_reads(
    trace_id: int, root_id: int, forward_id: int, is_sampled: bool
) -> None:
    """The span that forwards a request is the parent of the other host's spans."""
    line = TraceContext(trace_id, None, root_id, forward_id, is_sampled).line
    name, _, value = line.removesuffix(b"\r\n").partition(b": ")

    assert name == b"traceparent"
    assert parse(value) == Parent(trace_id, forward_id, is_sampled)


@given(st.binary(max_size=80))
def test_any_bytes(value: bytes) -> None:
    """Whatever a client sends is a valid parent or none."""
    parent = parse(value)

    assert parent is None or (0 < parent.trace_id < 2**128 and 0 < parent.span_id < 2**64)


@pytest.mark.parametrize("flags", ["00", "02", "01", "03", "ff"])
def test_the_flag_of_a_recorded_trace(flags: str) -> None:
    """Only the last bit says whether the client records the trace."""
    parent = parse(f"00-{TRACE}-{SPAN}-{flags}".encode())

    assert parent == Parent(int(TRACE, 16), int(SPAN, 16), is_sampled=flags in ("01", "03", "ff"))


def test_a_later_version() -> None:
    """It may have further parts, which are ignored."""
    assert parse(f"cc-{TRACE}-{SPAN}-01-what-the-future".encode()) == Parent(int(TRACE, 16), int(SPAN, 16), True)
    assert parse(f"cc-{TRACE}-{SPAN}-01".encode()) is not None


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01 ",
        f"ff-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01what",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
    ],
)
def test_an_invalid_header(value: str | None) -> None:
    """The request begins a trace of its own."""
    assert parse(None if value is None else value.encode()) is None


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n%b: %b\r\nA: b\r\n\r\n"


@pytest.mark.parametrize("name", [b"traceparent", b"Traceparent"])
def test_heads_that_differ_in_their_trace_only(name: bytes) -> None:
    """They are the same without it, and not the same as a head that never had one."""
    values = [f"00-{number:032x}-{SPAN}-01".encode() for number in (1, 2)]
    rests = {split(HEAD % (name, value))[0] for value in values}

    assert [split(HEAD % (name, value))[1] for value in values] == values
    assert len(rests) == 1
    assert rests.isdisjoint({HEAD.replace(b"%b: %b\r\n", b""), HEAD % (name, b"")})


@given(st.binary(max_size=80))
def test_what_is_cut_out_is_valid(value: bytes) -> None:
    """Anything else stays in its head."""
    head = HEAD % (b"traceparent", value)
    rest, found = split(head)

    assert parse(found) if found else rest == head
