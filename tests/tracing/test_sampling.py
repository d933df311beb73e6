"""Which traces are recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.tracing.sampling import sampler_of
from hotseat.tracing.traceparent import Parent

TRACE = 7
PARENTS = (None, Parent(TRACE, 1, is_sampled=True), Parent(TRACE, 1, is_sampled=False))
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

    assert tuple(samples(TRACE, parent) for parent in PARENTS) == expected


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
