"""Where a request's body ends, however it is cut, and what its framing may cost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.relay_rig import chunked

from hotseat.errors import ClientError, HeadTooLarge
from hotseat.relay.http.body_framing import MOST_CHUNKS, CountedBody, RequestChunks

BEHIND = b"GET / HTTP/1.1\r\nHost: box\r\n\r\n"
ODD = [b"\r\n\r\n", b"0\r\n\r\n", b"\r\n0\r\n\r\n", b"X: y\r\n\r\n", b"0", b"\r", b"\n", b"a"]
"""Content that looks like the end of a body."""


def taken(body: CountedBody | RequestChunks, *pieces: bytes) -> tuple[bytes, bytes]:
    """The content of all pieces, and what follows it."""
    content, rest = b"", b""
    for piece in pieces:
        if body.is_complete:
            rest += piece
        else:
            part, rest = body.take(piece)
            content += part
    assert body.is_complete
    return content, rest


@given(
    parts=st.lists(st.lists(st.sampled_from(ODD), min_size=1).map(b"".join), max_size=5),
    trailers=st.sampled_from([b"", b"X: y\r\n", b"X: 0\r\nY:\r\n"]),
    cuts=st.lists(st.integers(0, 200), max_size=4),
)
def test_a_body_in_chunks_ends_at_the_same_place_however_it_is_cut(
    parts: list[bytes], trailers: bytes, cuts: list[int]
) -> None:
    """Content that looks like an end is none, and what follows belongs to the next request."""
    sent = chunked(*parts).removesuffix(b"\r\n") + trailers + b"\r\n" + BEHIND
    places = [0, *sorted(cuts), len(sent)]
    pieces = [sent[begin:end] for begin, end in pairwise(places) if begin < end]

    assert taken(RequestChunks(1000), *pieces) == (b"".join(parts), BEHIND)


@given(content=st.binary(max_size=50), cut=st.integers(0, 60))
def test_a_counted_body_ends_where_its_length_says(content: bytes, cut: int) -> None:
    """Whatever is in it."""
    sent = content + BEHIND
    pieces = [piece for piece in (sent[:cut], sent[cut:]) if piece]

    assert taken(CountedBody(len(content)), *pieces) == (content, BEHIND)


@pytest.mark.parametrize("sent", [b"5\nhello", b"x\r\n", b"5\r\nhelloX", b"0\r\nX 1\r\n\r\n", b"0\r\n\rX", b"-1\r\n"])
def test_malformed_chunks_are_refused(sent: bytes) -> None:
    """At the first wrong byte."""
    with pytest.raises(ClientError, match="malformed"):
        RequestChunks(1000).take(sent)


@pytest.mark.parametrize(
    "sent", [b"5;" + b"a" * 1000, b"0\r\nX: " + b"y" * 1000, b"0\r\n" + b"X: yyyyyyy\r\n" * 200 + b"\r\n"]
)
def test_what_is_between_chunks_is_bounded(sent: bytes) -> None:
    """An extension or trailers may be as long as a head and no longer."""
    with pytest.raises(HeadTooLarge):
        RequestChunks(1000).take(sent)


def test_extensions_of_many_chunks_may_be_longer_than_one_head() -> None:
    """Each is counted alone."""
    body = RequestChunks(1000)
    for _ in range(10):
        assert body.take(b"1;" + b"x" * 900 + b"\r\na\r\n") == (b"a", b"")


def test_tiny_chunks_are_bounded_in_number() -> None:
    """What looks like an end does not count as one."""
    large = b"a\r\n\r\n" * (2 * MOST_CHUNKS)
    assert taken(RequestChunks(1000), chunked(large)) == (large, b"")
    with pytest.raises(ClientError, match="chunks of 1 bytes on average"):
        RequestChunks(1000).take(b"1\r\na\r\n" * (MOST_CHUNKS + 2000))
