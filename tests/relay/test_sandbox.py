"""Pages of model servers: shown in a sandbox, because they have our address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_house import chat, get

from hotseat.relay.rules import SANDBOX
from hotseat.settings import Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenHouse
    from tests.support.relay_house import RelayHouse

PAGES = [
    "Content-Type: text/html\r\n",
    "Content-Type: text/html; charset=utf-8\r\n",
    "content-type:TEXT/HTML\r\n",
    "Content-Type: application/xhtml+xml\r\n",
    "Content-Type: image/svg+xml\r\n",
    "Content-Type: text/xml\r\n",
    "Content-Type: application/json, text/html\r\n",
    "Content-Type: image/png, text/html\r\n",
    "Content-Type: application/json\r\nContent-Type: text/html\r\n",
    "Content-Type: what/ever\r\n",
    "Content-Type: \r\n",
    "",
]
NO_PAGES = [
    "application/json",
    "text/event-stream",
    "text/plain; charset=utf-8",
    "audio/wav",
    "image/png",
    "font/woff2",
]


def answer(fields: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\n{fields}Content-Length: 5\r\n\r\nhello".encode()


@pytest.mark.parametrize("fields", PAGES)
async def test_what_may_be_a_page_is_sandboxed_each_time(house: RelayHouse, fields: str) -> None:
    """Also where the same head has come before, and on every road to a model."""
    requests = [get("/upstream/alpha/"), get("/upstream/alpha/"), get("/"), get("/?model=alpha"), chat()]
    answers = [(await house.exchange(request, answer(fields)))[1] for request in requests]

    assert all(SANDBOX[0] in told.raw for told in answers)


@pytest.mark.parametrize("kind", NO_PAGES)
async def test_what_is_no_page_is_left_as_it_is(house: RelayHouse, kind: str) -> None:
    """An API's answers cost nothing more."""
    for _ in range(2):
        _, told = await house.exchange(chat(), answer(f"Content-Type: {kind}\r\n"))

        assert b"Content-Security-Policy" not in told.raw


async def test_a_page_cannot_take_itself_out_of_the_sandbox(house: RelayHouse) -> None:
    """Browsers keep to all policies together, so a second one can only forbid more."""
    lax = "Content-Type: text/html\r\nContent-Security-Policy: default-src *\r\n"
    _, told = await house.exchange(get("/upstream/alpha/"), answer(lax))

    assert SANDBOX[0] in told.raw


async def test_trusted_pages_run_as_our_own(open_house: OpenHouse) -> None:
    """`upstream.trustPages` is for those who want a server's own web interface."""
    house = await open_house(settings=Settings(trust_pages=True))
    _, told = await house.exchange(get("/upstream/alpha/"), answer("Content-Type: text/html\r\n"))

    assert b"Content-Security-Policy" not in told.raw


async def test_our_own_pages_are_not_confined(house: RelayHouse) -> None:
    """They bring a policy of their own."""
    client = await house.send(get("/swagger"))
    await (await house.management.call()).say(answer("Content-Type: text/html\r\n"))

    assert b"sandbox" not in (await client.message()).raw
