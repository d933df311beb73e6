"""The header that says to which trace a request belongs, and which traces are recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.tracing.traceparent import Parent, TraceContext, parse, sampler_of, split

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


TRACE_ID = 7
PARENTS = (None, Parent(TRACE_ID, 1, is_sampled=True), Parent(TRACE_ID, 1, is_sampled=False))
trace_ids = st.integers(1, 2**128 - 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", (True, True, False)),
        ("parentbased_always_on", (True, True, False)),
        ("parentbased_always_off", (False, True, False)),
        ("always_on", (True, True, True)),
        ("always_off", (False, False, False)),
        ("traceidratio", (True, True, True)),
        ("parentbased_traceidratio", (True, True, False)),
    ],
)
def test_a_sampler(name: str, expected: tuple[bool, bool, bool]) -> None:
    """For traces that begin here, that their client records, and that it does not record."""
    samples = sampler_of(name, "")

    assert tuple(samples(TRACE_ID, parent) for parent in PARENTS) == expected


@given(trace_ids, st.floats(0, 1), st.floats(0, 1))
def test_two_shares(trace_id: int, one: float, other: float) -> None:
    """A program with a larger share records every trace that one with a smaller share records."""
    less, more = sorted((one, other))
    records_less, records_more = (sampler_of("traceidratio", str(share))(trace_id, None) for share in (less, more))

    assert records_more or not records_less


@pytest.mark.parametrize(
    ("share", "expected"), [("0", [False, False, False]), ("0.5", [True, False, False]), ("1", [True] * 3)]
)
def test_a_share(share: str, expected: list[bool]) -> None:
    """The lower half of the id decides: its smallest, its middle and its largest value."""
    samples = sampler_of("traceidratio", share)

    assert [samples((1 << 64) + low, None) for low in (0, 1 << 63, (1 << 64) - 1)] == expected


@pytest.mark.parametrize(
    ("name", "argument", "problem"),
    [
        ("sometimes", "", "OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, or parentbased_ with"),
        ("traceidratio", "half", "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1"),
        ("traceidratio", "1.5", "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1"),
        ("traceidratio", "nan", "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1"),
    ],
)
def test_an_invalid_sampler(name: str, argument: str, problem: str) -> None:
    """The error says what it must be."""
    with pytest.raises(ValueError, match=problem):
        sampler_of(name, argument)
