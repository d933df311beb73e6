"""Chunks that are relayed without llhttp: those that would not change its state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.errors import UpstreamError
from hotseat.relay.upstream.response_bodies import ChunkedBody, DecodedBody

SIZES = st.one_of(
    st.integers(0, 1100).map(b"%x".__mod__), st.sampled_from([b"A", b"0x5", b"+5", b"05", b"5;e=1", b" 5"])
)
CHUNK = b"5\r\nhello\r\n"
LAST = b"0\r\n\r\n"


@given(size=SIZES, content=st.binary(max_size=1100), line_end=st.sampled_from([b"\r\n", b"\n", b"", b"\r\n0"]))
def test_a_chunk_that_passes_leaves_the_reader_where_it_was(size: bytes, content: bytes, line_end: bytes) -> None:
    """Parsing a chunk that may skip llhttp leaves it between two chunks of an unfinished response."""
    data = size + b"\r\n" + content + line_end
    reader = ChunkedBody()
    if not reader._is_whole_chunk(data):
        return
    reader._follow(data)

    assert reader.is_between_chunks
    assert not reader.is_complete


def test_a_chunk_of_a_stream_passes() -> None:
    """One whole chunk may skip llhttp; two chunks or the last chunk may not."""
    assert ChunkedBody()._is_whole_chunk(CHUNK)
    assert not ChunkedBody()._is_whole_chunk(CHUNK + CHUNK)
    assert not ChunkedBody()._is_whole_chunk(LAST)


def test_in_the_middle_of_a_chunk_nothing_passes() -> None:
    """Within a chunk, bytes that look like a chunk are parsed as content."""
    reader = ChunkedBody()
    reader._follow(b"10\r\n")

    assert not reader._is_whole_chunk(CHUNK)


def test_an_answer_ends_alike_whether_chunks_passed_or_were_followed() -> None:
    """The response completes in the same way whether or not chunks skipped llhttp."""
    for passes in (True, False):
        reader = ChunkedBody()
        if not passes:
            reader._follow(CHUNK)
        reader._follow(b"0\r\n")
        reader._follow(b"\r\n")

        assert reader.is_complete


def test_line_ends_behind_the_last_chunk_are_an_error_after_a_passed_chunk_too() -> None:
    """Bytes after the last chunk are an error even after a chunk that skipped llhttp."""
    reader = ChunkedBody()

    assert reader._is_whole_chunk(CHUNK)
    with pytest.raises(UpstreamError, match="data after its response"):
        reader._follow(LAST + b"\r\n")


def test_for_a_client_that_knows_no_chunks_none_passes() -> None:
    """For an HTTP/1.0 client every chunk is parsed."""
    assert DecodedBody().take(CHUNK) == b"hello"
