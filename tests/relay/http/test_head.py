"""Properties of heads that llhttp would have rejected already."""

from __future__ import annotations

import pytest

from hotseat.errors import ClientError, TooLarge, UpstreamError
from hotseat.identifiers import Address
from hotseat.relay.http.forwarded_head import response_bytes
from hotseat.relay.http.request_head import PartialHead, parse_request_head, read_head
from hotseat.relay.http.response_head import read_response_head

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


def test_an_old_client_does_not_wait_for_100_continue() -> None:
    """An HTTP/1.0 request does not want 100 Continue."""
    head = read_head(b"POST", b"/", "1.0", [(b"Expect", b"100-continue"), (b"Content-Length", b"5")])

    assert not head.wants_continue


def test_an_answer_with_two_framings_is_refused() -> None:
    """A response with Content-Length and Transfer-Encoding is an upstream error."""
    with pytest.raises(UpstreamError, match="sent both"):
        read_response_head(200, b"OK", [(b"Content-Length", b"5"), (b"Transfer-Encoding", b"chunked")])


def test_an_answer_without_fields_is_a_status_line_and_an_empty_line() -> None:
    """A response head without fields is the status line and an empty line."""
    head, _ = read_response_head(204, b"No Content", [])

    result = response_bytes(head, None, [], dechunk=False, close=False, http10=False, confine=False)
    assert result == b"HTTP/1.1 204 No Content\r\n\r\n"


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


# Complete heads


def lines(first: bytes = b"GET /slots HTTP/1.1", *fields: bytes) -> bytes:
    return b"\r\n".join([first, b"Host: box", *fields, b"", b""])


@pytest.mark.parametrize(
    ("version", "connection", "is_kept"),
    [
        (b"1.1", (), True),
        (b"1.1", (b"Connection: close",), False),
        (b"1.1", (b"Connection: keep-alive", b"Connection: X-A, Close"), False),
        (b"1.1", (b"Connection: closed",), True),
        (b"1.0", (), False),
        (b"1.0", (b"Connection: keep-alive",), True),
    ],
)
def test_a_head_says_whether_its_connection_goes_on(
    version: bytes, connection: tuple[bytes, ...], is_kept: bool
) -> None:
    """HTTP/1.1 goes on unless it says otherwise, HTTP/1.0 ends."""
    assert parse_request_head(lines(b"GET / HTTP/" + version, *connection)).keep_alive is is_kept


ASKED = (b"Connection: keep-alive, Upgrade", b"Upgrade: websocket")


@pytest.mark.parametrize(
    ("head", "is_websocket"),
    [
        (lines(b"GET / HTTP/1.1", *ASKED), True),
        (lines(b"GET / HTTP/1.1", b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: WebSocket"), True),
        (lines(b"GET / HTTP/1.1", *ASKED, b"Upgrade: h2c"), False),
        (lines(b"GET / HTTP/1.1", *ASKED, b"Content-Length: 0"), False),
        (lines(b"POST / HTTP/1.1", *ASKED), False),
        (lines(b"GET / HTTP/1.0", *ASKED), False),
        (lines(b"GET / HTTP/1.1", b"Upgrade: websocket"), False),
        (lines(b"GET / HTTP/1.1", b"Connection: upgrades", b"Upgrade: websocket"), False),
        (lines(b"GET / HTTP/1.1", b"Connection: Upgrade", b"Upgrade: h2c"), False),
        (lines(b"GET / HTTP/1.1", b"Connection: Upgrade", b"Upgrade: websocket, h2c"), False),
    ],
)
def test_a_websocket_is_asked_for_in_one_way_only(head: bytes, is_websocket: bool) -> None:
    """Everything else that offers another protocol is a plain request."""
    assert parse_request_head(head).is_websocket is is_websocket


@pytest.mark.parametrize("head", [lines()[:-1], lines()[:-2], b"GET / HTTP/1.1\r\n"])
def test_a_part_of_a_head_is_not_a_head(head: bytes) -> None:
    """The reader waits until it is complete."""
    with pytest.raises(ClientError, match="incomplete"):
        parse_request_head(head)


def test_a_head_in_pieces_is_complete_at_its_blank_line() -> None:
    """What follows it is given back along with it."""
    whole = lines() + b"body"
    head = PartialHead()
    result = [head.add(whole[at : at + 1], 1000) for at in range(len(lines()))]

    assert result == [*[b""] * (len(lines()) - 1), lines()]
    assert PartialHead().add(whole, 1000) == whole


@pytest.mark.parametrize("piece", [b"GET / HTTP/1.1\r\nHost : x", b"\x16\x03\x01", b"GET / HTTP/1.1\n"])
def test_a_malformed_head_is_refused_before_it_is_complete(piece: bytes) -> None:
    """Nobody waits for the rest of it."""
    with pytest.raises(ClientError, match="malformed"):
        PartialHead().add(piece, 1000)
