"""However the network splits an exchange, both sides see the same, with cached heads and without."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.relay_rig import HELLO, chat, chunked, get, post, turns

from hotseat.relay.access.policy import Policy
from hotseat.relay.http.head_cache import Memory

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message, Wire

pytestmark = [pytest.mark.uncounted, pytest.mark.one_loop]

NAMED = b'{"model":"alpha"}'
OK = b"HTTP/1.1 200 OK\r\n"
EVENTS = chunked(b"data: a\n\n", b"data: b\n\n", b"data: [DONE]\n\n")
FORM = b"--b\r\nContent-Disposition: form-data; name=model\r\n\r\nalpha\r\n--b--\r\n"


@dataclass(frozen=True, slots=True)
class Script:
    """What a client sends at once, and what the upstream responds to each request."""

    said: bytes
    answers: tuple[bytes, ...]
    method: str = "GET"
    hangs_up: bool = False
    """Does the upstream end its answer by hanging up?"""


SCRIPTS = {
    "length": Script(chat(), (HELLO,)),
    "fields": Script(
        chat("alpha", "X-A: 1"), (OK + b"content-length: 2\r\nServer: x\r\nX-B: Content-Length: 9\r\n\r\n{}",)
    ),
    "nothing": Script(get(), (OK + b"Content-Length: 0\r\n\r\n",)),
    "chunks both ways": Script(
        get("/v1/x", "Transfer-Encoding: chunked", method="POST") + chunked(NAMED[:5], NAMED[5:]),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n",),
    ),
    "pair": Script(chat() + get(), (HELLO, HELLO.replace(b"hello", b"world"))),
    "pair of a kind": Script(chat() * 2, (HELLO, HELLO.replace(b"hello", b"world"))),
    "refused between": Script(get() + get("/upstream/nobody/") + get(), (HELLO, HELLO)),
    "blank line first": Script(b"\r\n" + chat() + b"\r\n\r\n" + get(), (HELLO, HELLO)),
    "events": Script(chat(), (OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + EVENTS,)),
    "until it closes": Script(get(), (OK + b"Server: x\r\n\r\nhel\r\n\r\nlo",), hangs_up=True),
    "head": Script(get(method="HEAD"), (OK + b"Content-Length: 5\r\n\r\n",), method="HEAD"),
    "no content": Script(get(), (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n",)),
    "not modified": Script(get(), (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",)),
    "interim": Script(get(), (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + HELLO,)),
    "form": Script(post(FORM, "Content-Type: multipart/form-data; boundary=b", target="/v1/a"), (HELLO,)),
    "last": Script(chat("alpha", "Connection: close"), (HELLO,)),
    "the other's last": Script(get(), (HELLO.replace(b"Content", b"Connection: close\r\nContent", 1),)),
    "old": Script(post(NAMED, version="1.0"), (OK + b"Transfer-Encoding: chunked\r\n\r\n" + EVENTS,)),
    "error": Script(chat(), (HELLO.replace(b"200 OK", b"500 Out of memory"),)),
}
ALL_SCRIPTS = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
ENOUGH = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
CUTS = st.lists(st.integers(1, 400), max_size=12)

Seen = tuple[list[bytes], list[bytes]]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    return [data[begin:end] for begin, end in pairwise(at)]


async def say(wire: Wire, data: bytes, cuts: list[int]) -> None:
    """Each piece is read before the next one is sent."""
    for piece in pieces(data, cuts):
        await wire.send(piece)
        await turns()


async def play(
    rig: RelayRig, script: Script, asked: list[int], answered: list[int], client: Wire | None = None
) -> Seen:
    """What the upstream and the client received, when both send in pieces."""
    wire = client or await rig.client()
    await say(wire, script.said, asked)
    arrived = []
    for answer in script.answers:
        call = await rig.alpha.call()
        arrived.append(call.request.raw)
        await say(call.line.wire, answer, answered)
        if script.hangs_up:
            call.hang_up()
    seen = await _answers(wire, script)
    if client is None:
        wire.hang_up()
    return arrived, seen


async def _answers(wire: Wire, script: Script) -> list[bytes]:
    requests = script.said.count(b" HTTP/1.")
    seen = [comparable(await wire.message(to=script.method), script) for _ in range(requests)]
    await turns()

    assert wire.unread == b""
    return seen


def comparable(message: Message, script: Script) -> bytes:
    """Chunks that we make are as large as what came at a time: only what they hold can be compared."""
    if script.hangs_up:
        return message.raw.partition(b"\r\n\r\n")[0] + message.body
    return length_last(message.raw)


def length_last(message: bytes) -> bytes:
    """The position and the case of Content-Length do not matter."""
    head, _, body = message.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    lengths = [b"Content-Length:" + line[15:] for line in lines if line.lower().startswith(b"content-length:")]
    others = [line for line in lines if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*others, *lengths, b"", body])


def forget_everything(rig: RelayRig) -> None:
    rig.relay.context.policy = Policy(rig.relay.context.policy.settings)
    rig.relay.context.pool.heads = Memory()


@ALL_SCRIPTS
async def test_a_request_may_be_cut_anywhere(rig: RelayRig, script: Script) -> None:
    """A request split at any byte gives the same result, with its head cached and not."""
    whole = await play(rig, script, [], [])
    for cut in range(1, len(script.said)):
        forget_everything(rig)
        assert await play(rig, script, [cut], []) == whole
        assert await play(rig, script, [cut], []) == whole


@ALL_SCRIPTS
async def test_an_answer_of_any_kind_may_be_cut_anywhere(rig: RelayRig, script: Script) -> None:
    """A response split at any byte gives the same result, with its head cached and not."""
    whole = await play(rig, script, [], [])
    for cut in range(1, max(map(len, script.answers))):
        forget_everything(rig)
        assert await play(rig, script, [], [cut]) == whole
        assert await play(rig, script, [], [cut]) == whole


@ALL_SCRIPTS
async def test_every_byte_may_come_alone(rig: RelayRig, script: Script) -> None:
    """The result is the same if every byte of both sides arrives alone."""
    whole = await play(rig, script, [], [])

    assert await play(rig, script, list(range(1000)), list(range(1000))) == whole


@ALL_SCRIPTS
@ENOUGH
@given(asked=CUTS, answered=CUTS, is_known=st.booleans())
async def test_both_sides_may_speak_in_pieces(
    rig: RelayRig, script: Script, asked: list[int], answered: list[int], is_known: bool
) -> None:
    """Any splits on both sides at once give the same result."""
    forget_everything(rig)
    whole = await play(rig, script, [], [])
    if not is_known:
        forget_everything(rig)

    assert await play(rig, script, asked, answered) == whole


@ALL_SCRIPTS
async def test_what_is_said_again_is_answered_again(rig: RelayRig, script: Script) -> None:
    """A repeated exchange gives the same result, whatever other exchanges are in between."""
    first = await play(rig, script, [], [])
    for other in SCRIPTS.values():
        await play(rig, other, [], [])
        assert await play(rig, script, [], []) == first


@ENOUGH
@given(st.data())
async def test_a_conversation_is_the_sum_of_its_exchanges(rig: RelayRig, data: st.DataObject) -> None:
    """Exchanges on one connection give the same results as each of them alone."""
    lasting = [name for name in SCRIPTS if name not in ("last", "old")]
    names = data.draw(st.lists(st.sampled_from(lasting), min_size=2, max_size=8))
    forget_everything(rig)
    alone = {name: await play(rig, SCRIPTS[name], [], []) for name in names}
    if data.draw(st.booleans()):
        forget_everything(rig)
    client = await rig.client()
    for name in names:
        seen = await play(rig, SCRIPTS[name], data.draw(CUTS), data.draw(CUTS), client)
        assert seen == alone[name]
    client.hang_up()
