"""Ollama's `keep_alive` in all the forms that clients send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.errors import ClientError
from hotseat.identifiers import CENTURY_S
from hotseat.ollama.keep_alive import keep_alive_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (0.0, 0.0),
        ("0", 0.0),
        ("0s", 0.0),
        (300, 300.0),
        (1.5, 1.5),
        ("300", 300.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("+.5s", 0.5),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("2000000µs", 2.0),
        ("3000000000ns", 3.0),
    ],
    ids=repr,
)
def test_durations(value: Any, seconds: float) -> None:
    """A number is in seconds, and a text is a duration of Go or a number."""
    assert keep_alive_s(value) == seconds


@pytest.mark.parametrize(
    "value", [-1, -0.5, "-1", "-1m", "-1h30m", CENTURY_S, 10**400, "9" * 60, "999999999h"], ids=repr
)
def test_for_ever(value: Any) -> None:
    """A negative value keeps the model, and so does one beyond what clocks can be set to."""
    assert keep_alive_s(value) is None


@pytest.mark.parametrize(
    "value", ["", "soon", "5 m", "5m5", " 5m", "5x", "m", "5m-3s", "٥m", "1" * 65, True, [], {}, None], ids=repr
)
def test_no_durations(value: Any) -> None:
    """Anything else is refused with the forms that are accepted."""
    with pytest.raises(ClientError, match='a duration such as "5m"'):
        keep_alive_s(value)


@given(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.from_regex(r"-?([0-9]{1,30}(ms|s|m|h)){1,3}"))
)
def test_whatever_a_client_sends(value: Any) -> None:
    """The result is a time that a clock can be set to, or an error of the client."""
    try:
        seconds = keep_alive_s(value)
    except ClientError:
        return
    assert seconds is None or 0 <= seconds < CENTURY_S
