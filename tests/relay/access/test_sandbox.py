"""Pages of model servers are sandboxed, because they have hotseat's address."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.support.relay_rig import chat, chunked, get
from tests.support.scripted_upstream import on_a_port

from hotseat.catalog.named_models import RemoteModel
from hotseat.catalog.spec import BodyChanges
from hotseat.identifiers import ModelName
from hotseat.relay.access.policy import Policy
from hotseat.relay.access.sandbox import SANDBOX
from hotseat.settings import Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message as Reply

PAGES = [
    "Content-Type: text/html\r\n",
    "Content-Type: text/html; charset=utf-8\r\n",
    "content-type:TEXT/HTML\r\n",
    "Content-Type: application/xhtml+xml\r\n",
    "Content-Type: image/svg+xml\r\n",
    "Content-Type: image/svg\r\n",
    "Content-Type: text/xml\r\n",
    "Content-Type: application/xml\r\n",
    "Content-Type: application/atom+xml\r\n",
    "Content-Type: application/json+xml\r\n",
    "Content-Type: multipart/x-mixed-replace; boundary=x\r\n",
    "Content-Type: application/pdf\r\n",
    "Content-Type: application/json, text/html\r\n",
    "Content-Type: application/json;,text/html\r\n",
    "Content-Type: application/json;charset=utf-8,text/html\r\n",
    'Content-Type: application/json;charset="utf-8"\r\n',
    "Content-Type: application/json;charset=utf-8;charset=utf-8\r\n",
    "Content-Type: application/json;x=text/html\r\n",
    "Content-Type: application/json;\r\n",
    "Content-Type: application/json/x\r\n",
    "Content-Type: application/json \xa0\r\n",
    "Content-Type: application/json\xff\r\n",
    "Content-Type: image/png, text/html\r\n",
    "Content-Type: image/png;,text/html\r\n",
    "Content-Type: application/json\r\nContent-Type: text/html\r\n",
    "Content-Type: application/json\r\ncontent-type: application/json\r\n",
    "Content-Type: application/json\r\nConnection: Content-Type\r\n",
    "Content-Type: text/html\r\nConnection: Content-Security-Policy, X-Content-Type-Options\r\n",
    "Content-Type: text/plain\r\nRefresh: 0;url=/upstream/beta/load\r\n",
    "Content-Type: text/plain\r\nlink: </upstream/beta/load>; rel=preload\r\n",
    "Content-Type: what/ever\r\n",
    "Content-Type: \r\n",
    "",
]
NO_PAGES = [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON;charset=UTF-8",
    "text/event-stream",
    "text/event-stream; charset=utf-8",
    "text/plain; charset=utf-8",
    "audio/wav",
    "image/png",
    "font/woff2",
]


def answer(fields: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\n{fields}Content-Length: 5\r\n\r\nhello".encode("latin-1")


Confinement: TypeAlias = tuple[list[str], list[str]]


def confinement(reply: Reply) -> Confinement:
    """Its policies, and its X-Content-Type-Options."""
    return reply.all("Content-Security-Policy"), reply.all("X-Content-Type-Options")


CONFINED: Confinement = ([SANDBOX[1].decode()], ["nosniff"])
PLAIN: Confinement = ([], ["nosniff"])


@pytest.mark.parametrize("fields", PAGES)
async def test_what_may_be_a_page_is_sandboxed_each_time(rig: RelayRig, fields: str) -> None:
    """A response that may be a page is sandboxed, cached head or not, on every path to a model."""
    requests = [get("/upstream/alpha/"), get("/upstream/alpha/"), get("/"), get("/?model=alpha"), chat()]
    answers = [(await rig.exchange(request, answer(fields)))[1] for request in requests]

    assert [confinement(reply) for reply in answers] == [CONFINED] * 5


@pytest.mark.parametrize("status", ["206 Partial Content", "302 Found", "404 Not Found", "500 Oh"])
async def test_a_page_is_sandboxed_whatever_its_status(rig: RelayRig, status: str) -> None:
    """Pages with error, redirect and partial statuses are sandboxed too."""
    for _ in range(2):
        _, reply = await rig.exchange(get("/upstream/alpha/"), answer("Content-Type: text/html\r\n", status))

        assert confinement(reply) == CONFINED


async def test_an_answer_that_renews_a_kept_page_is_sandboxed(rig: RelayRig) -> None:
    """A 304 is sandboxed, because a browser may apply its fields to the cached page."""
    fresh = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Security-Policy: default-src *\r\n\r\n"
    _, reply = await rig.exchange(get("/upstream/alpha/", "If-None-Match: x"), fresh)

    assert reply.all("Content-Security-Policy") == [SANDBOX[1].decode(), "default-src *"]


async def test_a_page_that_is_streamed_is_sandboxed(rig: RelayRig) -> None:
    """A page in chunks, or ended by the connection, is sandboxed."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, reply = await rig.exchange(get("/upstream/alpha/"), head + chunked(b"hello"))
    client, call = await rig.reached(get("/upstream/alpha/"))
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello")
    call.hang_up()

    assert confinement(reply) == confinement(await client.message()) == CONFINED


@pytest.mark.parametrize("kind", NO_PAGES)
async def test_what_is_no_page_is_left_as_it_is(rig: RelayRig, kind: str) -> None:
    """Responses of harmless types get only `nosniff`, cached head or not."""
    for _ in range(3):
        _, reply = await rig.exchange(chat(), answer(f"Content-Type: {kind}\r\n"))

        assert confinement(reply) == PLAIN
        assert reply["Content-Type"] == kind


@pytest.mark.parametrize("said", ["nosniff", "sniff", "sniff\r\nX-Content-Type-Options: nosniff"])
async def test_a_server_cannot_take_back_that_nothing_is_guessed(rig: RelayRig, said: str) -> None:
    """A server's own X-Content-Type-Options is replaced by `nosniff`."""
    for _ in range(3):
        fields = f"x-content-type-options: {said}\r\nContent-Type: text/plain\r\n"
        _, reply = await rig.exchange(chat(), answer(fields))

        assert confinement(reply) == PLAIN


async def test_a_page_cannot_take_itself_out_of_the_sandbox(rig: RelayRig) -> None:
    """A server's own policy is sent after hotseat's; browsers enforce both."""
    lax = "Content-Type: text/html\r\nContent-Security-Policy: sandbox allow-scripts allow-same-origin\r\n"
    for _ in range(2):
        _, reply = await rig.exchange(get("/upstream/alpha/"), answer(lax))

        assert reply.all("Content-Security-Policy") == [SANDBOX[1].decode(), "sandbox allow-scripts allow-same-origin"]


async def test_a_policy_of_the_server_stays_on_what_is_no_page(rig: RelayRig) -> None:
    """A server's own policy on a harmless type is kept, even if it equals hotseat's."""
    fields = f"Content-Type: text/plain\r\n{SANDBOX[0].decode()}: {SANDBOX[1].decode()}\r\n"
    for _ in range(2):
        assert confinement((await rig.exchange(chat(), answer(fields)))[1]) == CONFINED


async def test_a_page_of_a_peer_is_sandboxed(open_rig: OpenRig) -> None:
    """A peer's page has the sandbox once, even if the peer already added it."""
    box = on_a_port()
    remote = RemoteModel(ModelName("box/far"), "box", box.address, BodyChanges("far"))
    rig = await open_rig(remotes={"box/far": remote})
    for fields in ("", f"{SANDBOX[0].decode()}: {SANDBOX[1].decode()}\r\nX-Content-Type-Options: nosniff\r\n") * 2:
        client = await rig.send(chat("box/far"))
        await (await box.call()).say(answer(f"Content-Type: text/html\r\n{fields}"))

        assert confinement(await client.message()) == CONFINED
    await box.aclose()


@pytest.mark.parametrize("from_trusted", [True, False])
async def test_a_reload_decides_about_heads_that_were_read_before(open_rig: OpenRig, from_trusted: bool) -> None:
    """A changed upstream.trustPages applies to responses with cached heads."""
    rig = await open_rig(settings=Settings(trust_pages=from_trusted))
    page = answer("Content-Type: text/html\r\n")
    before = [confinement((await rig.exchange(get("/upstream/alpha/"), page))[1]) for _ in range(3)]
    rig.relay.context.policy = Policy(Settings(trust_pages=not from_trusted))
    after = [confinement((await rig.exchange(get("/upstream/alpha/"), page))[1]) for _ in range(3)]

    said = {True: ([], []), False: CONFINED}
    assert (before, after) == ([said[from_trusted]] * 3, [said[not from_trusted]] * 3)


async def test_our_own_head_is_not_taken_for_a_servers(rig: RelayRig) -> None:
    """hotseat's own pages are not sandboxed even if a server's page has the same head."""
    page = answer("Content-Type: text/html\r\n")
    reply = []
    for _ in range(3):
        client = await rig.send(get("/swagger"))
        await (await rig.management.call()).say(page)
        reply.append(confinement(await client.message()))
        reply.append(confinement((await rig.exchange(get("/upstream/alpha/"), page))[1]))

    assert reply == [([], []), CONFINED] * 3


async def test_trusted_pages_run_as_our_own(open_rig: OpenRig) -> None:
    """With upstream.trustPages, pages are not sandboxed."""
    rig = await open_rig(settings=Settings(trust_pages=True))
    _, reply = await rig.exchange(get("/upstream/alpha/"), answer("Content-Type: text/html\r\n"))

    assert b"Content-Security-Policy" not in reply.raw


async def test_our_own_pages_are_not_confined(rig: RelayRig) -> None:
    """Pages of the management API are not sandboxed."""
    client = await rig.send(get("/swagger"))
    await (await rig.management.call()).say(answer("Content-Type: text/html\r\n"))

    assert b"sandbox" not in (await client.message()).raw
