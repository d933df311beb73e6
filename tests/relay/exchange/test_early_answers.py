"""A client that waits for a stream receives the reason, if configured; the stream then continues as usual."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.early_streams import (
    CHUNKED_EVENTS,
    EVENTS,
    STREAMED,
    ask,
    piece,
    pieces_to_the_end,
    silent,
    waiting_client,
    without_comments,
)
from tests.support.endless_upstream import MOST_IN_BETWEEN, EndlessUpstream
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, MODELS, chat, chunked, turns
from tests.support.transport import promptly
from tests.support.waiting import come_true

from hotseat.catalog.spec import LoadingState
from hotseat.identifiers import ModelName
from hotseat.relay.exchange.early_stream import EVERY_S, GRACE_S, comment, reasoning
from hotseat.settings import Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.relay.conftest import OpenRig
    from tests.support.early_streams import WaitingClient

    from hotseat.tasks import Tasks

ALPHA, BETA, _ = MODELS
WITH_COMMENTS = spec("slow", loading_state=LoadingState.COMMENTS)
REASONED = spec("slow", loading_state=LoadingState.REASONING)
SAID = b'data: {"choices":[]}\n\ndata: [DONE]\n\n'
SMALL = 16 << 10


@pytest.fixture
async def waiting(open_rig: OpenRig) -> WaitingClient:
    return waiting_client(await open_rig(models=(ALPHA, BETA, WITH_COMMENTS), send_buffer=SMALL))


@pytest.fixture
async def waiting_for_reasoning(open_rig: OpenRig) -> WaitingClient:
    return waiting_client(await open_rig(models=(ALPHA, BETA, REASONED)))


# Before and at the end of the grace


async def test_a_quick_load_is_waited_for_in_silence(waiting: WaitingClient) -> None:
    """Within the grace period nothing is sent, and the client gets the upstream's own head."""
    client = await waiting.enter()
    waiting.alarms.wait(0.9 * GRACE_S)
    kept_silent = await silent(client)
    call = await waiting.loaded()
    waiting.alarms.wait(100)
    await call.say(EVENTS + b"X-Own: 1\r\nContent-Length: 3\r\n\r\n:\n\n")
    answered = await client.message()

    assert kept_silent
    assert (answered["X-Own"], answered.body) == ("1", b":\n\n")
    assert waiting.alarms.set == []


async def test_a_quick_failure_keeps_its_status(waiting: WaitingClient) -> None:
    """A load that fails within the grace period is a 503."""
    waiting.rig.launcher.broken = ("slow",)
    client = await waiting.rig.send(ask())
    answered = await client.message()

    assert answered.status == 503
    assert waiting.alarms.set == []


async def test_a_long_wait_begins_the_answer(waiting: WaitingClient) -> None:
    """The head announces an unbuffered event stream, and a comment has the reason for the wait."""
    client, head = await waiting.early_answer()

    assert head.decode().split("\r\n") == [
        "HTTP/1.1 200 OK",
        "X-Content-Type-Options: nosniff",
        "Content-Type: text/event-stream",
        "Cache-Control: no-cache",
        "Transfer-Encoding: chunked",
        "X-Accel-Buffering: no",
        "X-Request-Id: box-7",
        "",
        "",
    ]
    sign = await piece(client)
    assert sign.startswith(b": slow: loading slow: ")
    assert sign.endswith(b" its usual time is not known yet\n\n")


async def test_a_page_of_an_allowed_origin_may_read_it(open_rig: OpenRig) -> None:
    """An early response has the CORS header for an allowed origin."""
    access = Access(allowed_origins=("http://chat.example",))
    waiting = waiting_client(await open_rig(models=(WITH_COMMENTS,), access=access))
    _, head = await waiting.early_answer(ask("Origin: http://chat.example"))

    assert b"\r\nAccess-Control-Allow-Origin: http://chat.example\r\n" in head


async def test_signs_of_life_go_on(waiting: WaitingClient) -> None:
    """While the client waits, a comment with the current reason is sent at every interval."""
    client, _ = await waiting.early_answer()
    for _ in range(24):
        await piece(client)
        before = await silent(client)
        waiting.alarms.wait(EVERY_S)
        assert before

    assert (await piece(client)).startswith(b": slow: loading")


async def test_a_sign_tells_who_is_in_the_way(waiting: WaitingClient) -> None:
    """The comment names the model that is in use."""
    _, call = await waiting.rig.reached(chat())
    client, _ = await waiting.early_answer()
    sign = await piece(client)
    await call.say(HELLO)

    assert sign.startswith(b": slow: ")
    assert b"alpha" in sign


async def test_signs_go_on_until_the_model_speaks(waiting: WaitingClient) -> None:
    """Comments continue before and after the upstream's head, and end with its first data."""
    client, _ = await waiting.early_answer()
    await piece(client)
    call = await waiting.loaded()
    waiting.alarms.wait(EVERY_S)
    before_head = await piece(client)
    await call.say(CHUNKED_EVENTS)
    await turns()
    waiting.alarms.wait(EVERY_S)
    after_head = await piece(client)
    await call.say(b"8\r\n")
    size_alone_is_nothing = await silent(client)
    await call.say(b"data: x\n\r\n")
    word = await piece(client)

    assert size_alone_is_nothing
    assert before_head == after_head == b": slow: it has received the request and has not responded yet\n\n"
    assert word == b"data: x\n"
    assert waiting.alarms.set == []


# The stream that follows


@pytest.mark.parametrize(
    ("answer", "hangs_up"),
    [
        (CHUNKED_EVENTS + chunked(SAID[:9], SAID[9:]), False),
        (EVENTS + b"Content-Length: %d\r\n\r\n%b" % (len(SAID), SAID), False),
        (EVENTS + b"\r\n" + SAID, True),
    ],
    ids=["chunks", "length", "until it closes"],
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 200), max_size=8))
async def test_a_stream_goes_on_however_it_is_framed_and_cut(
    waiting: WaitingClient, answer: bytes, hangs_up: bool, cuts: list[int]
) -> None:
    """The client gets every byte of the stream and its end, however the upstream frames and splits it."""
    client, _ = await waiting.early_answer()
    call = await waiting.loaded()
    for begin, end in pairwise([0, *sorted({cut for cut in cuts if cut < len(answer)}), len(answer)]):
        await call.say(answer[begin:end])
        await turns()
    if hangs_up:
        call.hang_up()
    received = await pieces_to_the_end(client)
    await come_true(lambda: waiting.rig.in_flight("slow") == 0)
    await waiting.rig.dispatcher.operator.unload(ModelName("slow"))

    assert without_comments(received) == SAID
    assert waiting.alarms.set == []


async def test_the_connection_can_be_used_again(waiting: WaitingClient) -> None:
    """After an early response the connection serves the next request."""
    client, _ = await waiting.early_answer()
    await (await waiting.loaded()).say(CHUNKED_EVENTS + chunked(SAID))
    await pieces_to_the_end(client)
    await client.send(ask())
    await (await waiting.rig.upstreams["slow"].call()).say(HELLO)

    assert (await client.message()).body == b"hello"
    assert [entry.status for entry in waiting.rig.activity.entries] == [200, 200]


async def test_a_client_that_wants_no_more_is_let_go(waiting: WaitingClient) -> None:
    """With `Connection: close`, an early response says so and the connection closes after the last chunk."""
    client, head = await waiting.early_answer(ask("Connection: close"))
    await (await waiting.loaded()).say(CHUNKED_EVENTS + chunked(SAID))

    assert b"\r\nConnection: close\r\n" in head
    assert (await client.read_to_end()).endswith(b"\r\n0\r\n\r\n")


async def test_what_began_plain_goes_on_plain(waiting: WaitingClient) -> None:
    """Accept-Encoding is removed only from requests whose response began early."""
    request = ask("Accept-Encoding: gzip")
    calls = []
    for _ in range(2):
        client, _ = await waiting.early_answer(request)
        calls.append(await waiting.loaded())
        await calls[-1].say(CHUNKED_EVENTS + chunked(SAID))
        await pieces_to_the_end(client)
        await client.send(request)
        calls.append(await waiting.rig.upstreams["slow"].call())
        await calls[-1].say(HELLO)
        await client.message()
        await waiting.rig.dispatcher.operator.unload(ModelName("slow"))

    assert [call.request.all("Accept-Encoding") for call in calls] == [[], ["gzip"], [], ["gzip"]]
    assert {call.request.body for call in calls} == {STREAMED}


async def test_a_server_that_cannot_be_reached_is_waited_for_again(waiting: WaitingClient) -> None:
    """If the server died as it became ready, the request queues again and gets the stream of the next start."""
    client, _ = await waiting.early_answer()
    alive = waiting.rig.launcher.addresses["slow"]
    waiting.rig.launcher.addresses["slow"] = alive._replace(port=1)
    waiting.rig.launcher.become_ready("slow")
    await come_true(lambda: len(waiting.alarms.set) == 2)
    waiting.rig.launcher.addresses["slow"] = alive
    waiting.rig.launcher.crash("slow", "killed by signal 9")
    await come_true(lambda: waiting.rig.phase("slow") != "ready")
    waiting.alarms.wait(1)
    await come_true(lambda: waiting.rig.launcher.is_starting("slow"))
    waiting.alarms.wait(GRACE_S + EVERY_S)
    await (await waiting.loaded()).say(CHUNKED_EVENTS + chunked(SAID))

    assert without_comments(await pieces_to_the_end(client)) == SAID


# Those who read slowly, or leave


async def test_signs_do_not_pile_up_for_a_client_that_reads_nothing(waiting: WaitingClient) -> None:
    """Comments stop when the client's buffer is full, and the stream still arrives complete."""
    client = await waiting.enter(receive_buffer=SMALL)
    waiting.alarms.wait(GRACE_S)
    waiting.alarms.wait(20_000 * EVERY_S)
    call = await waiting.loaded()
    await call.say(CHUNKED_EVENTS + chunked(SAID))
    await client.read_until(b"\r\n\r\n")
    received = await pieces_to_the_end(client)

    assert 500 < received.count(b": slow:") < 10_000
    assert without_comments(received) == SAID


async def test_a_model_does_not_speak_to_a_client_that_is_behind(waiting: WaitingClient, tasks: Tasks) -> None:
    """If the client's buffer is full of comments, the model server is paused until the client reads."""
    client = await waiting.enter(receive_buffer=SMALL)
    waiting.alarms.wait(20_000 * EVERY_S)
    call = await waiting.loaded()
    await call.say(CHUNKED_EVENTS)
    upstream = EndlessUpstream(call.line)
    tasks.start(upstream.flow(2 * MOST_IN_BETWEEN), "flow")
    await upstream.stands_still()
    stopped_at = upstream.sent
    await client.read_exactly(1 << 20)
    await come_true(lambda: upstream.sent > stopped_at)

    assert stopped_at < MOST_IN_BETWEEN


@pytest.mark.parametrize("leave", ["hang_up", "say_goodbye", "reset"])
async def test_a_client_that_leaves_is_forgotten(waiting: WaitingClient, leave: str) -> None:
    """It leaves the queue within milliseconds, and gets no more messages."""
    client, _ = await waiting.early_answer()
    getattr(client, leave)()
    await promptly(come_true(lambda: waiting.rig.waiting() == 0))
    waiting.rig.launcher.become_ready("slow")

    assert waiting.status() == 499
    assert waiting.alarms.set == []


async def test_a_client_that_leaves_amid_its_stream_frees_the_model(waiting: WaitingClient) -> None:
    """A client that disconnects during its stream releases the lease and is recorded with 499."""
    client, _ = await waiting.early_answer()
    call = await waiting.loaded()
    await call.say(CHUNKED_EVENTS + b"8\r\ndata: x\n\r\n")
    await client.read_until(b"data: x\n")
    client.hang_up()
    await call.ended()
    await promptly(come_true(lambda: waiting.rig.in_flight("slow") == 0))

    assert waiting.status() == 499


# Those who get no comments


@pytest.mark.parametrize(
    "request_",
    [
        ask(body=b'{"model":"slow"}'),
        ask(body=b'{"model":"slow","stream":false}'),
        ask(body=b'{"model":"slow","stream":"true"}'),
        ask(body=b'{"model":"slow","stream":1}'),
        ask(target="/v1/audio/speech"),
        ask(target="/api/other"),
        ask(version="1.0"),
        ask(target="/v1/chat/completions?model=slow", body=b"\x1f\x8bgzip"),
        ask(target="/v1/chat/completions?model=slow", body=b'["stream"]'),
    ],
)
async def test_who_did_not_ask_for_an_event_stream_waits_in_silence(waiting: WaitingClient, request_: bytes) -> None:
    """A request that is not for an event stream gets nothing until the upstream responds."""
    client = await waiting.enter(request_)
    waiting.alarms.wait(100)

    assert await silent(client)
    waiting.rig.launcher.become_ready("slow")
    await (await waiting.rig.upstreams["slow"].call()).say(HELLO)
    assert (await client.message()).body == b"hello"


async def test_no_response_begins_early_without_send_loading_state(open_rig: OpenRig) -> None:
    """Without sendLoadingState, a failed wait is a 503 however long it took."""
    waiting = waiting_client(await open_rig())
    client = await waiting.enter()
    waiting.alarms.wait(100)
    waiting.rig.launcher.slow = ()
    await waiting.rig.dispatcher.operator.unload(ModelName("slow"))

    assert (await client.message()).status == 503


async def test_a_ready_model_answers_for_itself(waiting: WaitingClient) -> None:
    """A request to a ready model sets no timer."""
    first = await waiting.enter()
    await (await waiting.loaded()).say(HELLO)
    await first.message()
    client = await waiting.rig.send(ask())
    call = await waiting.rig.upstreams["slow"].call()

    assert waiting.alarms.set == []
    await call.say(HELLO)
    assert (await client.message()).body == b"hello"


@pytest.mark.parametrize(
    "target",
    [
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/completion",
        "/infill",
        "/upstream/slow/v1/chat/completions",
    ],
)
async def test_other_event_streams_begin_early_too(waiting: WaitingClient, target: str) -> None:
    """All paths on which `stream` means server-sent events can begin early."""
    client, _ = await waiting.early_answer(ask(target=target))

    assert (await piece(client)).startswith(b": slow: loading")


# Signs as reasoning


async def test_a_chat_can_show_the_signs_as_reasoning(waiting_for_reasoning: WaitingClient) -> None:
    """With `reasoning`, the reason is a chat chunk with only reasoning_content."""
    client, _ = await waiting_for_reasoning.early_answer()
    sign = json.loads((await piece(client)).removeprefix(b"data: "))
    (choice,) = sign["choices"]

    assert (sign["object"], sign["model"]) == ("chat.completion.chunk", "slow")
    assert choice["delta"].keys() == {"reasoning_content"}
    assert choice["delta"]["reasoning_content"].startswith("slow: loading slow: ")
    assert choice["finish_reason"] is None


@pytest.mark.parametrize("target", ["/v1/completions", "/v1/messages", "/v1/responses"])
async def test_what_is_no_chat_gets_comments_instead(waiting_for_reasoning: WaitingClient, target: str) -> None:
    """With `reasoning`, streams that are not chats get comments."""
    client, _ = await waiting_for_reasoning.early_answer(ask(target=target))

    assert (await piece(client)).startswith(b": slow: loading")


@pytest.mark.parametrize("make", [comment, reasoning])
def test_a_sign_is_one_event(make: Callable[[str, str], bytes]) -> None:
    """Exactly one blank line ends it, whatever it contains."""
    sign = make("m", "two words")

    assert sign.count(b"\n") == 2
    assert sign.endswith(b"\n\n")
