"""The id of a request, the client's own or hotseat's, on every path out of the relay."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.relay_rig import HELLO, OUR_ID, chat, chunked, get
from tests.support.waiting import come_true

from hotseat.relay.http.request_id import LONGEST, numbered, split_id

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

OURS = OUR_ID.decode()
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def named(name: str, *, spelled: str = "X-Request-Id") -> bytes:
    return chat("alpha", f"{spelled}: {name}")


# Ours


def test_our_own_names_are_never_given_twice() -> None:
    """6,000 ids of two generators are different and have the documented form."""
    one, other = numbered(), numbered()
    names = [give() for give in (one, other) for _ in range(3000)]

    assert len(set(names)) == 6000
    assert all(re.fullmatch(rb"[0-9a-z]{8}-\d+[0-9a-z]{2}", name) for name in names)


async def test_a_request_without_a_name_gets_one(rig: RelayRig) -> None:
    """The model server, the client and the record get the same generated id."""
    for _ in range(3):  # unknown, known by looking it up, known by comparing
        asked, answered = await rig.exchange(chat())

        assert (asked["X-Request-Id"], answered["X-Request-Id"]) == (OURS, OURS)
    assert {entry.id for entry in rig.activity.entries} == {OUR_ID}


# The client's


@pytest.mark.parametrize("spelled", ["X-Request-Id", "x-request-id", "X-Request-ID", "X-REQUEST-ID"])
async def test_a_clients_name_goes_all_the_way(rig: RelayRig, spelled: str) -> None:
    """The client's id reaches the server, the response and the record, however the field is spelled."""
    for name in ("one", "two", "two", "7c6e:/+=@._-"):
        asked, answered = await rig.exchange(named(name, spelled=spelled))

        assert (asked["X-Request-Id"], answered["X-Request-Id"]) == (name, name)
    assert [entry.id for entry in rig.activity.entries] == [b"one", b"two", b"two", b"7c6e:/+=@._-"]


async def test_on_one_connection_each_request_has_its_own_name(rig: RelayRig) -> None:
    """Requests with cached heads on one connection each have their own id."""
    client = await rig.client()
    seen = []
    for request in (named("one"), chat(), named("two"), named("two"), chat()):
        await client.send(request)
        call = await rig.alpha.call()
        await call.say(HELLO)
        seen.append((call.request["X-Request-Id"], (await client.message())["X-Request-Id"]))

    assert seen == [(name, name) for name in ("one", OURS, "two", "two", OURS)]


@pytest.mark.parametrize("name", ["", "a b", "{}", "x" * (LONGEST + 1), "a%0d%0ab", "gr\xfcn", '"q"', "a,b"])
async def test_a_name_that_is_not_plain_passes_and_is_not_repeated(rig: RelayRig, name: str) -> None:
    """An unusual id reaches the server beside hotseat's; the response and the record have only hotseat's."""
    for _ in range(3):
        asked, answered = await rig.exchange(named(name))

        assert (asked.all("X-Request-Id"), asked.all("Hotseat-Request-Id")) == ([name], [OURS])
        assert (answered.all("X-Request-Id"), answered.all("Hotseat-Request-Id")) == ([OURS], [])
    assert {entry.id for entry in rig.activity.entries} == {OUR_ID}


@pytest.mark.parametrize("second", ["two", "a b"])
async def test_of_two_names_neither_counts(rig: RelayRig, second: str) -> None:
    """If the client sends two ids, both reach the server, and hotseat's own is used."""
    await rig.exchange(named(second))
    for _ in range(2):
        asked, answered = await rig.exchange(chat("alpha", "X-Request-Id: one", f"X-Request-Id: {second}"))

        assert (asked.all("X-Request-Id"), asked["Hotseat-Request-Id"]) == (["one", second], OURS)
        assert answered["X-Request-Id"] == OURS


async def test_a_host_of_the_fleet_may_name_a_request_beside_another_id(rig: RelayRig) -> None:
    """Hotseat-Request-Id is used where X-Request-Id is not a plain word."""
    for _ in range(2):
        fields = "X-Request-Id: a b", "Hotseat-Request-Id: box-a-1"
        asked, answered = await rig.exchange(chat("alpha", *fields))

        assert (asked["X-Request-Id"], asked["Hotseat-Request-Id"]) == ("a b", "box-a-1")
        assert answered["X-Request-Id"] == "box-a-1"


async def test_an_upstreams_own_name_passes_beside_ours(rig: RelayRig) -> None:
    """The server's id stays as it is; the id in hotseat's log is sent as Hotseat-Request-Id."""
    answer = HELLO.replace(b"\r\n\r\n", b"\r\nx-request-id: theirs\r\n\r\n")
    for _ in range(3):  # unknown, known by looking it up, known by comparing
        _, answered = await rig.exchange(named("mine"), answer)

        assert (answered.all("X-Request-Id"), answered.all("Hotseat-Request-Id")) == (["theirs"], ["mine"])
    assert {entry.id for entry in rig.activity.entries} == {b"mine"}


async def test_an_upstreams_own_name_passes_beside_ours_in_a_stream(rig: RelayRig) -> None:
    """The head of a stream is never cached, and has the same headers."""
    stream = STREAM.replace(b"\r\n\r\n", b"\r\nX-Request-ID: theirs\r\n\r\n")
    _, answered = await rig.exchange(named("mine"), stream + chunked(b"data: x\n\n"))

    assert (answered.all("X-Request-Id"), answered.all("Hotseat-Request-Id")) == (["theirs"], ["mine"])


async def test_what_an_upstream_says_under_our_own_name_for_it_ends_here(rig: RelayRig) -> None:
    """An upstream's Hotseat-Request-Id is removed."""
    answer = HELLO.replace(b"\r\n\r\n", b"\r\nHotseat-Request-Id: forged\r\n\r\n")
    for _ in range(3):
        _, answered = await rig.exchange(named("mine"), answer)

        assert (answered.all("X-Request-Id"), answered.all("Hotseat-Request-Id")) == (["mine"], [])


@given(st.sampled_from([b"", b"\r\nX-A: 1"]), st.text(alphabet="abc-:\r\n ", max_size=8).map(str.encode))
def test_cutting_the_name_out_leaves_a_head(before: bytes, name: bytes) -> None:
    """A plain id is cut out of the head; otherwise the head stays whole."""
    head = b"POST / HTTP/1.1" + before + b"\r\nX-Request-Id: " + name + b"\r\nHost: box\r\n\r\n"
    left, found = split_id(head)

    is_plain = re.fullmatch(rb"[abc:-]+", name) is not None
    expected = (b"POST / HTTP/1.1" + before + b"\r\nHost: box\r\n\r\n", name) if is_plain else (head, b"")
    if not re.match(rb"[abc:-]+\r\n", name):  # a line end within it ends the name
        assert (left, found) == expected
    else:
        assert found == name.partition(b"\r\n")[0]


# Streams, refusals, logs


async def test_a_stream_is_named_too(rig: RelayRig) -> None:
    """The head of a stream has the request's id."""
    _, answered = await rig.exchange(named("mine"), STREAM + chunked(b"data: x\n\n"))

    assert answered["X-Request-Id"] == "mine"


async def test_a_refusal_is_named_too(rig: RelayRig) -> None:
    """Errors have the request's id, or a generated one if the request is malformed."""
    at_the_gate = await rig.refusal(get("/slots?model=alpha", "Origin: http://evil.example", "X-Request-Id: one"))
    unknown = await rig.refusal(get("/slots?model=nobody", "X-Request-Id: two"))
    malformed = await rig.refusal(b"BAD\r\n\r\n")

    assert [refused["X-Request-Id"] for refused in (at_the_gate, unknown, malformed)] == ["one", "two", OURS]


async def test_what_went_wrong_with_a_request_is_logged_with_its_name(
    rig: RelayRig, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed request is logged with its id."""
    caplog.set_level(logging.INFO, "hotseat.relay")
    client, call = await rig.reached(named("mine"))
    call.hang_up()
    refused = await client.message()

    assert (refused.status, refused["X-Request-Id"]) == (502, "mine")
    assert "request failed request=mine model=alpha error='alpha closed the connection " in caplog.text


async def test_what_is_under_way_can_be_found_by_its_name(rig: RelayRig) -> None:
    """A waiting request is reported with its id."""
    client = await rig.send(chat("slow", "X-Request-Id: mine"))
    await come_true(lambda: rig.waiting() == 1)
    [waiting] = rig.relay.connections.in_progress()
    client.hang_up()

    assert waiting.id == b"mine"
