"""Tokens that no model server reports are estimated, so that a client that leaves early has used some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.relay.exchange.test_token_usage import STREAM, event
from tests.relay.exchange.test_usage_counting import used
from tests.support.relay_rig import chat, chunked, post, turns
from tests.support.waiting import come_true

from hotseat.activity.usage_store import Used
from hotseat.relay.exchange.token_estimate import MOST_ENCODED, of_prompt
from hotseat.relay.http.body import IN_MEMORY

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

PROMPT = 4
"""Estimated for `chat()`, whose body has 17 bytes."""
WORD = event({"choices": [{"delta": {"content": "x"}}]})
START = event({"type": "message_start", "message": {"usage": {"input_tokens": 900, "output_tokens": 1}}})
DELTA = event({"type": "content_block_delta", "delta": {"text": "x"}})
TEXT_OF_1000 = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
IMAGE, RECORDING = b'{"url":"data:image/png;base64,%b"}', b'{"input_audio":{"data": "%b"}}'
ENCODED, TEXT = b"iVBORw0KGgo/+=" * 1000, b"some text " * 400
ESCAPED, DISGUISED = ENCODED.replace(b"/", rb"\/"), rb"tell\u0020me\u0020a\u0020story" * 100
WHOLE, COUNTED = b"A" * 4096, b"A" * 1024
"""An encoded image, and what counts of it."""


def unknown(estimated: int) -> dict[tuple[str, str], Used]:
    return {("alpha", ""): Used(requests=1, unknown=1, estimated=estimated)}


async def leave_after(rig: RelayRig, request: bytes, *parts: bytes) -> None:
    """The client leaves when it has these parts of the response."""
    client, call = await rig.reached(request)
    for part in parts:
        await call.say(part)
    await client.read_until(b"\r\n\r\n")
    await client.read_exactly(len(b"".join(parts).partition(b"\r\n\r\n")[2]))
    client.hang_up()
    await come_true(lambda: rig.activity.entries)


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


async def test_a_client_leaves_a_stream(rig: RelayRig) -> None:
    """An event of the stream is a token, whether it comes alone or with others; the prompt is estimated by its size."""
    await leave_after(rig, chat(), STREAM + chunk(WORD), chunk(WORD * 3), chunk(WORD))

    assert used(rig) == unknown(PROMPT + 5)


async def test_a_client_leaves_a_message(rig: RelayRig) -> None:
    """The first event of Anthropic's streams has the tokens of the prompt, and a number of the answer's beginning."""
    await leave_after(rig, chat(), STREAM + chunk(START), *[chunk(DELTA)] * 20)
    [counted] = used(rig).values()

    assert 900 + 19 <= counted.estimated <= 900 + 23


async def test_a_client_leaves_a_stream_that_came_in_large_parts(rig: RelayRig) -> None:
    """Only their ends are kept, so that the number of events is known by and large."""
    await leave_after(rig, chat(), STREAM + chunk(WORD), chunk(WORD * 1000), chunk(WORD * 1000))
    [counted] = used(rig).values()

    assert 1900 <= counted.estimated <= 2400


async def test_a_connection_that_was_used_before(rig: RelayRig) -> None:
    """The events of the response before are not counted a second time."""
    client, call = await rig.reached(chat())
    await call.say(STREAM + chunked(*[WORD] * 9))
    await client.message()
    await client.send(chat())
    await rig.alpha.call()
    used(rig)
    client.hang_up()
    await come_true(lambda: len(rig.activity.entries) == 2)

    assert used(rig) == unknown(PROMPT)


async def test_a_model_server_that_fails(rig: RelayRig) -> None:
    """Nobody pays for an answer that has not begun; one that breaks off counts as far as it came."""
    client, call = await rig.reached(chat())
    call.hang_up()
    await client.message()
    nothing = used(rig)
    client, call = await rig.reached(chat())
    await call.say(STREAM + chunk(WORD))
    await client.read_until(WORD)
    call.hang_up()
    await client.end()

    assert (nothing, used(rig)) == (unknown(0), unknown(PROMPT + 1))


async def test_a_stream_whose_server_reports_nothing(rig: RelayRig) -> None:
    """As vLLM's, unless its client asks for it."""
    client, call = await rig.reached(chat())
    await call.say(STREAM + chunked(*[WORD] * 9))
    await client.message()

    assert used(rig) == unknown(PROMPT + 9)


@pytest.mark.parametrize(
    ("path", "estimated"),
    [
        ("/v1/chat/completions", 4 + 250),
        ("/completion?x=y", 4 + 250),
        ("/v1/embeddings", 4),
        ("/v1/rerank", 4),
    ],
)
async def test_a_whole_response_whose_server_reports_nothing(rig: RelayRig, path: str, estimated: int) -> None:
    """A text has a token in four bytes; vectors and scores have none."""
    request = post(b'{"model":"alpha"}', "Content-Type: application/json", target=path)
    await rig.exchange(request, TEXT_OF_1000)

    assert used(rig) == unknown(estimated)


async def test_a_form(rig: RelayRig) -> None:
    """It contains a recording, which is no text."""
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nalpha\r\n--b--\r\n'
    fields = ("Content-Type: multipart/form-data; boundary=b",)
    await rig.exchange(post(form, *fields, target="/v1/audio/transcriptions"))
    await turns()

    assert used(rig) == unknown(0)


async def test_a_body_on_disk(rig: RelayRig) -> None:
    """A text whose model is named in its address may be long; it counts by its size."""
    body = b'{"prompt":"%b"}' % (b"x" * 2 * IN_MEMORY)
    await rig.exchange(post(body, target="/upstream/alpha/v1/chat/completions"), TEXT_OF_1000)

    assert used(rig) == unknown(len(body) // 4 + 250)


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (b"", 0),
        (TEXT, len(TEXT)),
        (IMAGE % ENCODED, len(IMAGE % COUNTED)),
        (IMAGE % ESCAPED, len(IMAGE % COUNTED)),
        (RECORDING % ENCODED, len(RECORDING % COUNTED)),
        (IMAGE % ENCODED + RECORDING % ENCODED + TEXT, len(IMAGE % COUNTED + RECORDING % COUNTED + TEXT)),
        (IMAGE % b"AAAA", len(IMAGE % b"AAAA")),
        (IMAGE % DISGUISED, len(IMAGE % DISGUISED)),
        (IMAGE % TEXT, len(IMAGE % TEXT)),
        (b"write ;base64,like this", 23),
        (IMAGE % WHOLE * (MOST_ENCODED + 9), len(IMAGE % COUNTED * MOST_ENCODED + IMAGE % WHOLE * 9)),
    ],
    ids=range(11),
)
def test_a_prompt(body: bytes, size: int) -> None:
    """Four bytes are a token, and a long image or recording is 256; text behind their marks is text, as are more."""
    assert of_prompt(body) == size // 4
