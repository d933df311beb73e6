"""Failures after a response began early: reported in the client's format, and never an end that looks complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.early_streams import CHUNKED_EVENTS, EVENTS, ask, cut_off, waiting_client, without_comments
from tests.support.fake_launcher import catalog, spec
from tests.support.relay_rig import MODELS, chunked
from tests.support.waiting import come_true

from hotseat.catalog.spec import LoadingState
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.relay.conftest import OpenRig
    from tests.support.early_streams import WaitingClient

SLOW = ModelName("slow")
WITH_COMMENTS = spec("slow", loading_state=LoadingState.COMMENTS)
OWN_ERROR = b'{"error":{"message":"too long","type":"exceed_context_size_error","code":400,"n_ctx":4096}}'


@pytest.fixture
async def waiting(open_rig: OpenRig) -> WaitingClient:
    return waiting_client(await open_rig(models=(*MODELS[:2], WITH_COMMENTS)))


def answer(status: str, body: bytes, *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def only_event(data: bytes) -> dict[str, Any]:
    """The data of the one event that an SDK sees."""
    (line,) = [line for line in without_comments(data).split(b"\n") if line.startswith(b"data: ")]
    return dict(json.loads(line.removeprefix(b"data: ")))


async def the_load_fails(waiting: WaitingClient) -> None:
    waiting.rig.launcher.crash("slow", "exited with code 1")
    waiting.rig.launcher.become_ready("slow")


async def the_model_is_unloaded(waiting: WaitingClient) -> None:
    await waiting.rig.dispatcher.operator.unload(SLOW)


async def the_model_is_taken_out_of_the_configuration(waiting: WaitingClient) -> None:
    waiting.rig.dispatcher.tell(CatalogChanged(catalog(*MODELS[:2])))


async def hotseat_shuts_down(waiting: WaitingClient) -> None:
    await waiting.rig.dispatcher.shut_down(within=1)


@pytest.mark.parametrize(
    ("happens", "code", "status"),
    [
        (the_load_fails, "model_failed_to_start", 503),
        (the_model_is_unloaded, "model_unloaded", 503),
        (the_model_is_taken_out_of_the_configuration, "model_not_found", 404),
        (hotseat_shuts_down, "shutting_down", 503),
    ],
)
async def test_a_wait_in_vain_is_an_error_event(
    waiting: WaitingClient, happens: Callable[[WaitingClient], Awaitable[None]], code: str, status: int
) -> None:
    """A failed wait ends the stream with an error event, and the recorded status is that of the error."""
    client, _ = await waiting.early_answer()
    await happens(waiting)
    error = only_event(await cut_off(client))["error"]

    assert error["code"] == code
    assert "slow" in error["message"] or "hotseat" in error["message"]
    assert waiting.status() == status
    assert waiting.alarms.set == []


async def test_an_anthropic_caller_gets_an_error_event_in_its_format(waiting: WaitingClient) -> None:
    """On /v1/messages the error is an `error` event in Anthropic's format."""
    client, _ = await waiting.early_answer(ask(target="/v1/messages"))
    await the_load_fails(waiting)
    data = await cut_off(client)

    assert b"\nevent: error\n" in data
    assert only_event(data)["type"] == "error"
    assert "slow" in only_event(data)["error"]["message"]


async def test_an_upstream_that_dies_before_it_answers_is_named(waiting: WaitingClient) -> None:
    """If the upstream closes before its response, the error event says so, and the status is 502."""
    client, _ = await waiting.early_answer()
    (await waiting.loaded()).hang_up()

    assert "closed the connection before it responded" in only_event(await cut_off(client))["error"]["message"]
    assert waiting.status() == 502


@pytest.mark.parametrize("framing", [CHUNKED_EVENTS + b"18\r\n", EVENTS + b"Content-Length: 99\r\n\r\n"])
async def test_an_upstream_that_dies_amid_its_stream_is_named(waiting: WaitingClient, framing: bytes) -> None:
    """If the upstream closes during an event, the event is ended and the error is an event of its own."""
    client, _ = await waiting.early_answer()
    call = await waiting.loaded()
    await call.say(framing + b'data: {"half')
    call.hang_up()
    *_, half, error, rest = (await cut_off(client)).split(b"\n\n")

    assert (half, rest) == (b'data: {"half', b"")
    assert "in the middle of its response" in only_event(error)["error"]["message"]
    assert waiting.status() == 502


async def test_the_upstreams_own_error_is_passed_on(waiting: WaitingClient) -> None:
    """The upstream's error object is sent unchanged as an event."""
    client, _ = await waiting.early_answer()
    await (await waiting.loaded()).say(answer("400 Bad Request", OWN_ERROR, "Content-Type: application/json"))

    assert only_event(await cut_off(client)) == json.loads(OWN_ERROR)
    assert waiting.status() == 400


async def test_the_upstreams_own_error_in_chunks_is_passed_on(waiting: WaitingClient) -> None:
    """A chunked error of the upstream is sent unchanged as an event."""
    client, _ = await waiting.early_answer()
    head = b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n"
    await (await waiting.loaded()).say(head + chunked(OWN_ERROR[:20], OWN_ERROR[20:]))

    assert only_event(await cut_off(client)) == json.loads(OWN_ERROR)
    assert waiting.status() == 500


async def test_the_upstreams_own_error_is_put_into_the_anthropic_frame(waiting: WaitingClient) -> None:
    """On /v1/messages the upstream's error is wrapped in Anthropic's format."""
    client, _ = await waiting.early_answer(ask(target="/v1/messages"))
    await (await waiting.loaded()).say(answer("400 Bad Request", b'{"error":{"message":"too long"}}'))

    assert only_event(await cut_off(client)) == {
        "type": "error",
        "error": {"type": "api_error", "message": "too long"},
    }


@pytest.mark.parametrize(
    ("said", "message", "status"),
    [
        (answer("500 Oops", b"out\nof memory", "Content-Type: text/plain"), "500 with text/plain", 500),
        (answer("503 Busy", b'{"error":"loading"}'), '503 with no content type instead of an event stream: {"err', 503),
        (answer("500 Oops", b'{"error":{"message":5}}'), "responded 500", 500),
        (answer("200 OK", b'{"choices":[]}', "Content-Type: application/json"), "200 with application/json", 502),
        (answer("302 Found", b"", "Location: /"), "responded 302", 502),
        (b"HTTP/1.1 204 No Content\r\nContent-Type: text/event-stream\r\n\r\n", "responded 204", 502),
        (
            answer("200 OK", b"\x1f\x8b", "Content-Type: text/event-stream", "Content-Encoding: gzip"),
            "responded 200",
            502,
        ),
        (answer("500 Oops", b'{"error":{"message":"%b"}}' % (b"x" * 1_000_000)), "responded 500", 500),
        (answer("500 Oops", b'{"error":' + b"[" * 60_000), "responded 500", 500),
    ],
)
async def test_an_answer_that_is_no_event_stream_becomes_an_error_event(
    waiting: WaitingClient, said: bytes, message: str, status: int
) -> None:
    """If the response is not an event stream, the error event has its status, type and beginning."""
    client, _ = await waiting.early_answer()
    await (await waiting.loaded()).say(said)
    error = only_event(await cut_off(client))["error"]

    assert error["message"].startswith("slow responded ")
    assert message in error["message"]
    assert len(error["message"]) < 1000
    assert waiting.status() == status


async def test_a_malformed_answer_becomes_an_error_event(waiting: WaitingClient) -> None:
    """A malformed response is an error event."""
    client, _ = await waiting.early_answer()
    await (await waiting.loaded()).say(b"hello")
    await come_true(lambda: waiting.rig.in_flight("slow") == 1)
    await waiting.rig.upstreams["slow"].lines[-1].wire.send(b"\r\n\r\n")

    assert "malformed" in only_event(await cut_off(client))["error"]["message"]


async def test_a_forced_unload_becomes_an_error_event(waiting: WaitingClient) -> None:
    """A forced unload ends an early stream with an error event."""
    client, _ = await waiting.early_answer()
    await (await waiting.loaded()).say(CHUNKED_EVENTS + chunked(b"data: x\n\n")[:-5])
    await client.read_until(b"data: x")
    await client.read_until(b"\r\n")
    await waiting.rig.dispatcher.operator.unload(SLOW, force=True)

    assert only_event(await cut_off(client))["error"]["code"] == "model_unloaded"
