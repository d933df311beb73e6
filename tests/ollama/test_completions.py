"""The events of an event stream, however its bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.errors import UpstreamError
from hotseat.ollama import completions
from hotseat.ollama.completions import EventReader

STREAM = (
    b": a comment\n\ndata: one\n\ndata:two\n\r\nevent: named\ndata: three\nid: 7\n\n"
    b"data: of two\r\ndata: lines\r\n\r\n\n\nretry: 5\n\ndata: last\n\ndata: cut off"
)
EVENTS = [b"one", b"two", b"three", b"of two\nlines", b"last"]


def read(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_comments_and_names_are_left_out() -> None:
    """Only the data counts, and an event that its server did not end is none."""
    assert read([STREAM]) == EVENTS


def test_cut_at_every_byte() -> None:
    """Two pieces or many: the events are the same."""
    for place in range(len(STREAM)):
        assert read([STREAM[:place], STREAM[place:]]) == EVENTS
    assert read([STREAM[place : place + 1] for place in range(len(STREAM))]) == EVENTS


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 400), max_size=8))
def test_any_cut_of_any_bytes(texts: list[bytes], places: list[int]) -> None:
    """What is read depends on the bytes alone."""
    stream = b"".join(b"data: " + text + b"\n\n" for text in texts)
    bounds = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]

    pieces = [stream[begin:end] for begin, end in itertools.pairwise(bounds)]

    assert read(pieces) == read([stream])


@pytest.mark.parametrize("piece", [b"x" * 50, b"data: " + b"x" * 50 + b"\n"])
def test_an_event_without_an_end_is_not_kept_for_ever(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never ends a line or an event is stopped at a limit."""
    monkeypatch.setattr(completions, "MOST_OF_AN_EVENT", 1000)
    with pytest.raises(UpstreamError, match="1000 bytes"):
        read([piece] * 30)


def test_tiny_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event costs some time, so a read may have a limited number of them; a later read may have as many again."""
    monkeypatch.setattr(completions, "MOST_EVENTS", 3)
    reader = EventReader()

    assert reader.feed(b"data: 1\n\n" * 3) == reader.feed(b"data: 1\n\n" * 3) == [b"1"] * 3
    with pytest.raises(UpstreamError, match="more than 3 tiny events"):
        reader.feed(b"data: 1\n\n" * 4)
