"""Properties of heads that llhttp would have rejected already."""

from __future__ import annotations

import pytest

from hotseat.errors import ClientError, TooLarge, UpstreamError
from hotseat.identifiers import Address
from hotseat.relay.http.head import read_head, read_response_head, response_bytes

HOST = (b"Host", b"box")


@pytest.mark.parametrize("length", [b"", b"five", b"-1", b"0x5", "٣".encode()])
def test_a_length_that_is_no_number_is_refused(length: bytes) -> None:
    """A Content-Length that is not ASCII digits is a client error."""
    with pytest.raises(ClientError, match="not a number"):
        read_head(b"POST", b"/", "1.1", [HOST, (b"Content-Length", length)])


def test_a_length_beyond_all_limits_is_too_large() -> None:
    """A Content-Length of a thousand digits is TooLarge."""
    with pytest.raises(TooLarge):
        read_head(b"POST", b"/", "1.1", [HOST, (b"Content-Length", b"9" * 1000)])


def test_of_repeated_fields_the_first_is_known() -> None:
    """The first of repeated fields is used for lookups, and all are kept."""
    head = read_head(b"GET", b"/", "1.1", [HOST, (b"X-A", b"1"), (b"x-a", b"2")])

    assert head.known[b"x-a"] == b"1"
    assert len(head.fields) == 3


@pytest.mark.parametrize(
    ("fields", "has_body"),
    [([], False), ([(b"Content-Length", b"0")], False), ([(b"Content-Length", b"1")], True)],
)
def test_a_body_is_what_has_a_length(fields: list[tuple[bytes, bytes]], has_body: bool) -> None:
    """A request has a body if its length is above 0."""
    assert read_head(b"POST", b"/", "1.1", [HOST, *fields]).has_body is has_body


def test_an_old_client_does_not_wait_to_be_told() -> None:
    """An HTTP/1.0 request does not want 100 Continue."""
    head = read_head(b"POST", b"/", "1.0", [(b"Expect", b"100-continue"), (b"Content-Length", b"5")])

    assert not head.wants_continue


def test_an_answer_with_two_framings_is_refused() -> None:
    """A response with Content-Length and Transfer-Encoding is an upstream error."""
    with pytest.raises(UpstreamError, match="sent both"):
        read_response_head(200, b"OK", [(b"Content-Length", b"5"), (b"Transfer-Encoding", b"chunked")])


def test_an_answer_without_fields_is_a_status_line_and_an_empty_line() -> None:
    """A response head without fields is the status line and an empty line."""
    head = read_response_head(204, b"No Content", [])

    told = response_bytes(head, [], dechunk=False, close=False, http10=False, confine=False)
    assert told == b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (Address("127.0.0.1", 80), b"127.0.0.1:80"),
        (Address("::1", 80), b"[::1]:80"),
        (Address("ignored", 0, unix_path="/run/x"), b"localhost"),
    ],
)
def test_an_upstream_is_called_by_its_own_address(address: Address, host: bytes) -> None:
    """An upstream's Host is its address and port, or localhost for a unix socket."""
    assert address.authority.encode() == host
