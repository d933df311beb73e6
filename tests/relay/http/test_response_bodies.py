"""Chunks that are relayed without llhttp: those that would not change its state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.errors import UpstreamError
from hotseat.relay.http.body_framing import MOST_OVERHEAD, ChunkedBody, DecodedBody

SIZES = st.one_of(
    st.integers(0, 5000).map(b"%x".__mod__), st.sampled_from([b"A", b"0x5", b"+5", b"05", b"5;e=1", b" 5"])
)
CHUNK = b"5\r\nhello\r\n"
LAST = b"0\r\n\r\n"


def skips_llhttp(body: ChunkedBody, data: bytes) -> bool:
    parser = body._parser
    del body._parser
    try:
        return body.take(data) == (data, b"")
    except AttributeError:
        return False
    finally:
        body._parser = parser


def follow(body: ChunkedBody, data: bytes) -> None:
    """Let llhttp see this, whatever it is."""
    body.is_between_chunks = False
    assert body.take(data) == (data, b"")


@given(size=SIZES, content=st.binary(max_size=1100), line_end=st.sampled_from([b"\r\n", b"\n", b"", b"\r\n0"]))
def test_a_chunk_that_passes_leaves_the_reader_where_it_was(size: bytes, content: bytes, line_end: bytes) -> None:
    """Parsing a chunk that may skip llhttp leaves it between two chunks of an unfinished response."""
    data = size + b"\r\n" + content + line_end
    body = ChunkedBody()
    if not skips_llhttp(body, data):
        return
    follow(body, data)

    assert body.is_between_chunks
    assert not body.is_complete


@given(st.integers(1, 5000), st.sampled_from([b"a", b"\r\n", b"0\r\n\r\n"]))
def test_a_small_chunk_passes(size: int, content: bytes) -> None:
    """Up to three digits; whatever is in it."""
    chunk = b"%x\r\n%b\r\n" % (size, (content * size)[:size])

    assert skips_llhttp(ChunkedBody(), chunk) is (size < 0x1000)
    follow(ChunkedBody(), chunk)


def test_a_chunk_of_a_stream_passes() -> None:
    """One whole chunk may skip llhttp; two chunks or the last chunk may not."""
    assert skips_llhttp(ChunkedBody(), CHUNK)
    assert not skips_llhttp(ChunkedBody(), CHUNK + CHUNK)
    assert not skips_llhttp(ChunkedBody(), LAST)


def test_in_the_middle_of_a_chunk_nothing_passes() -> None:
    """Within a chunk, bytes that look like a chunk are parsed as content."""
    body = ChunkedBody()
    body.take(b"10\r\n")

    assert not skips_llhttp(body, CHUNK)


def test_an_answer_ends_alike_whether_chunks_passed_or_were_followed() -> None:
    """The response completes in the same way whether or not chunks skipped llhttp."""
    for passes in (True, False):
        body = ChunkedBody()
        if not passes:
            follow(body, CHUNK)
        body.take(b"0\r\n")
        body.take(b"\r\n")

        assert body.is_complete


def test_line_ends_behind_the_last_chunk_are_an_error_after_a_passed_chunk_too() -> None:
    """Bytes after the last chunk are an error even after a chunk that skipped llhttp."""
    body = ChunkedBody()

    assert skips_llhttp(body, CHUNK)
    with pytest.raises(UpstreamError, match="data after its response"):
        body.take(LAST + b"\r\n")


def test_for_a_client_that_knows_no_chunks_none_passes() -> None:
    """For an HTTP/1.0 client every chunk is parsed."""
    assert DecodedBody().take(CHUNK) == (b"hello", b"")


@pytest.mark.parametrize("kind", [ChunkedBody, DecodedBody])
@pytest.mark.parametrize("begun", [b"5;", b"0;", b"0\r\nX: ", b"0\r\nX"])
def test_no_line_between_chunks_is_endless(kind: type[ChunkedBody | DecodedBody], begun: bytes) -> None:
    """Neither an extension nor a trailer: llhttp keeps a trailer until it is complete."""
    body = kind()
    body.take(CHUNK)
    body.take(begun)
    for _ in range(MOST_OVERHEAD // 1000):
        body.take(b"x" * 1000)
    with pytest.raises(UpstreamError, match="too much between two chunks"):
        body.take(b"x" * 1000)


@pytest.mark.parametrize("kind", [ChunkedBody, DecodedBody])
def test_a_chunk_may_be_large(kind: type[ChunkedBody | DecodedBody]) -> None:
    """Its content is no overhead."""
    body = kind()
    body.take(b"%x\r\n" % (2 * MOST_OVERHEAD))
    for _ in range(0, 2 * MOST_OVERHEAD, 1 << 16):
        body.take(b"x" * (1 << 16))
    body.take(b"\r\n" + LAST)

    assert body.is_complete
