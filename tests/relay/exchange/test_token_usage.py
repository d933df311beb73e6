"""Tokens are counted from the end of a response, for each server's format and framing."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.relay_rig import chat, chunked, get
from tests.support.waiting import come_true

from hotseat.activity.recent import Tokens
from hotseat.relay.exchange.states import Streaming
from hotseat.relay.exchange.token_usage import LARGE, MOST_PIECES, MOST_USAGES, ends_of, tokens_in

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

    from hotseat.scheduling.events import PromptProcessed

TIMINGS = {
    "prompt_n": 5,
    "prompt_per_second": 90.5,
    "predicted_n": 7,
    "predicted_ms": 70.5,
    "predicted_per_second": 99.5,
}
MEASURED_RATE = 465.9832246039142
MEASURED = {
    "cache_n": 900,
    "prompt_n": 5,
    "prompt_ms": 62.5,
    "predicted_n": 7,
    "predicted_per_second": MEASURED_RATE,
}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def compact(members: dict[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


def forbidden(*_: object) -> None:
    raise AssertionError("nothing was to be reported")


def event(members: dict[str, Any], name: str = "") -> bytes:
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + compact(members) + b"\n\n"


CHAT = {"choices": [{"message": {"content": "x" * 9000}}], "usage": {"completion_tokens": 3, "prompt_tokens": 4}}
DETAILS = {"cached_tokens": 900}
DETAILED = {"prompt_tokens": 904, "completion_tokens": 3, "prompt_tokens_details": DETAILS}
OLLAMAS = {
    "context": [1] * 900,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 1,
    "eval_count": 259,
    "eval_duration": 2,
}
CACHED = compact({"choices": [{"message": {"content": "hi"}}], "usage": DETAILED, "timings": MEASURED})


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (compact(CHAT), Tokens(4, 3, None)),
        (json.dumps(CHAT, indent=2).encode(), Tokens(4, 3, None)),
        (compact({**CHAT, "id": "chatcmpl-1", "timings": TIMINGS}), Tokens(4, 3, 99.5)),
        (compact({"usage": DETAILED, "service_tier": None}), Tokens(904, 3, None, 900)),
        (compact({"usage": DETAILED, "timings": MEASURED}), Tokens(905, 3, MEASURED_RATE, 900, 0.0625)),
        (compact({"content": "hi", "timings": MEASURED}), Tokens(905, 7, MEASURED_RATE, 900, 0.0625)),
        (
            compact({"usage": {"cache_read_input_tokens": 900, "input_tokens": 4, "output_tokens": 3}}),
            Tokens(904, 3, None, 900),
        ),
        (
            compact(
                {
                    "usage": {
                        "input_tokens": 4,
                        "cache_creation_input_tokens": 30,
                        "cache_read_input_tokens": 900,
                        "output_tokens": 3,
                    }
                }
            ),
            Tokens(934, 3, None, 900),
        ),
        (compact({"done": True, **OLLAMAS}), Tokens(26, 259, None)),
        (compact({"message": {"content": ""}, "done": False}) + b"\n" + compact(OLLAMAS), Tokens(26, 259, None)),
        (compact({"embeddings": [[0.5] * 900], "prompt_eval_count": 8}), Tokens(8, None, None)),
        (compact({"usage": {"prompt_tokens_details": None, "prompt_tokens": 4}}), Tokens(4, None, None)),
        (compact({"content": "hi", "tokens_evaluated": 1, "timings": TIMINGS}), Tokens(5, 7, 99.5)),
        (compact({"content": [], "usage": {"input_tokens": 4, "output_tokens": 3}}), Tokens(4, 3, None)),
        (compact({"usage": {"prompt_tokens": 4, "total_tokens": 4}, "data": [0.5] * 9000}), Tokens(4, None, None)),
        (compact({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}), Tokens(0, 0, None)),
        (event({"choices": []}) + event(CHAT) + b"data: [DONE]\n\n", Tokens(4, 3, None)),
        (
            event({"type": "message_delta", "usage": {"output_tokens": 3}}, "message_delta")
            + event({"type": "message_stop"}, "message_stop"),
            Tokens(None, 3, None),
        ),
        (compact({"usage": {"input_tokens": 4, "output_tokens": 3}, "user": "usage"}), Tokens(4, 3, None)),
        (compact({"timings": TIMINGS, "stopping_word": "timings"}), Tokens(5, 7, 99.5)),
        (compact({"usage": None}), None),
        (compact({"error": {"message": "no"}}), None),
        (b"", None),
        (b"\x1f\x8b\x08usage", None),
        (compact({"choices": [{"message": {"content": '"usage":{"completion_tokens":9}'}}]}), None),
    ],
)
def test_every_server_says_it_in_its_own_words(answer: bytes, tokens: Tokens | None) -> None:
    """Tokens are found in each server's format, also if only both ends of the response are kept."""
    assert tokens_in([answer]) == tokens
    assert tokens_in([ends_of(answer)]) == tokens


REAL, FALSE = {"input_tokens": 5000, "output_tokens": 900}, {"input_tokens": 1, "output_tokens": 1}
IN_OPENAIS_WORDS = {"prompt_tokens": 1, "completion_tokens": 1}


@pytest.mark.parametrize(
    "repeated",
    [
        {"usage": FALSE},
        {"usage": IN_OPENAIS_WORDS},
        IN_OPENAIS_WORDS,
        {"cache_n": 0, "prompt_n": 1, "prompt_ms": 1.5},
        {"timings": TIMINGS},
        {"usage": {}},
        {"usage": {"input_tokens": "1", "output_tokens": "1"}},
        {"usage": "5"},
        {"usage": json.dumps({"usage": FALSE})},
        {"a": {"usage": FALSE}, "b": {"usage": FALSE}, "usage": None},
    ],
    ids=range(10),
)
def test_a_client_makes_a_server_repeat_something(repeated: dict[str, Any]) -> None:
    """The Responses API ends with the client's own members: they cannot make the usage smaller."""
    answer = compact({"output": [], "usage": REAL, "metadata": repeated})
    found = tokens_in([answer])

    assert found is not None
    assert (found.prompt, found.completion) == (5000, 900)


@pytest.mark.parametrize(("count", "is_known"), [(MOST_USAGES - 1, True), (MOST_USAGES, False)])
def test_too_many_usages(count: int, is_known: bool) -> None:
    """So many that it would cost time to read them all make the counts unknown, and an estimate is charged."""
    answer = compact({"usage": REAL, "metadata": [{"usage": {"input_tokens": 1}}] * count})[-760:]
    found = tokens_in([answer])

    assert (found is not None and found.prompt == 5000) is is_known


def test_a_stream_that_counts_in_every_event() -> None:
    """As vLLM's, if its client asks for it: the last count is that of all."""
    events = [event({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": n}}) for n in range(9)]

    assert tokens_in([*events[-MOST_PIECES:], b"data: [DONE]\n\n"]) == Tokens(4, 8, None)


@given(st.lists(st.integers(0, 400), max_size=MOST_PIECES - 1))
def test_it_does_not_matter_how_the_end_was_cut(cuts: list[int]) -> None:
    """The tokens are the same however the kept end is split."""
    answer = compact({**CHAT, "timings": TIMINGS})[-400:]
    places = [0, *sorted(cuts), len(answer)]
    pieces = [answer[begin:end] for begin, end in pairwise(places)]

    assert tokens_in(pieces) == Tokens(4, 3, 99.5)


@given(st.integers(1, 60))
def test_a_number_in_two_chunks_is_no_smaller_number(place: int) -> None:
    """A number split by chunk framing is unknown, never a wrong number."""
    usage = b'"usage":{"completion_tokens":12345,"prompt_tokens":67890}}'
    cut = min(place, len(usage) - 1)
    found = tokens_in([usage[:cut] + b"\r\n1f\r\n" + usage[cut:]])

    assert found is None or found in (
        Tokens(67890, 12345, None),
        Tokens(67890, None, None),
        Tokens(None, 12345, None),
    )


@given(st.binary(max_size=3000))
def test_no_answer_is_too_strange(answer: bytes) -> None:
    """Arbitrary bytes raise nothing."""
    assert tokens_in([b'"usage"' + answer]) is None or b"_" in answer


async def test_an_answer_is_counted(rig: RelayRig) -> None:
    """Each response on a connection has its own tokens, in one piece or several."""
    body = compact(CHAT)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    client = await rig.client()
    for cut in (len(body), 100, len(body) - 10):
        await client.send(chat())
        call = await rig.alpha.call()
        await call.say(head % len(body) + body[:cut])
        if body[cut:]:
            await call.say(body[cut:])
        assert (await client.message()).body == body
    await client.send(chat())
    await (await rig.alpha.call()).say(head % 2 + b"{}")
    await client.message()

    assert [entry.tokens for entry in rig.activity.entries] == [Tokens(4, 3, None)] * 3 + [None]


async def test_a_stream_is_counted(rig: RelayRig) -> None:
    """The tokens of a stream are found in its last events."""
    pieces = [event({"choices": [{"delta": {"content": "x"}}]})] * 20
    last = [event({"choices": [], "usage": {"completion_tokens": 20, "prompt_tokens": 4}}), b"data: [DONE]\n\n"]
    client, call = await rig.reached(chat())
    await call.say(STREAM)
    for piece in [*pieces, *last]:
        await call.say(b"%x\r\n%b\r\n" % (len(piece), piece))
    await call.say(b"0\r\n\r\n")
    await client.message()

    assert rig.activity.entries[0].tokens == Tokens(4, 20, None)


@pytest.mark.parametrize("is_with_head", [True, False])
async def test_the_prompt_of_a_message_is_found_in_its_first_event(rig: RelayRig, is_with_head: bool) -> None:
    """Anthropic's streams count the prompt there and the answer in the end, however long it is."""
    usage = {"cache_read_input_tokens": 900, "input_tokens": 4, "output_tokens": 0}
    start = event({"type": "message_start", "message": {"model": "m" * 100, "usage": usage}}, "message_start")
    pieces = [event({"type": "content_block_delta", "delta": {"text": "x"}}, "content_block_delta")] * 20
    last = [event({"type": "message_delta", "usage": {"output_tokens": 20}}), event({"type": "message_stop"})]
    first, *others = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [start, *pieces, *last]]
    client, call = await rig.reached(chat())
    for piece in ([STREAM + first] if is_with_head else [STREAM, first]) + others + [b"0\r\n\r\n"]:
        await call.say(piece)
    await client.message()

    assert rig.activity.entries[0].tokens == Tokens(904, 20, None, 900)


async def test_an_answer_that_ends_with_its_connection_is_counted(rig: RelayRig) -> None:
    """Tokens are found in a response without length and chunks."""
    client, call = await rig.reached(chat())
    await call.say(b"HTTP/1.1 200 OK\r\n\r\n" + compact(CHAT))
    call.hang_up()
    await client.message()

    assert rig.activity.entries[0].tokens == Tokens(4, 3, None)


async def test_only_the_end_of_a_long_answer_is_kept(rig: RelayRig) -> None:
    """What is kept of a response is bounded."""
    client, call = await rig.reached(get())
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n")
    await call.say(b"x" * 1_500_000)
    await client.read_exactly(1_500_000)
    exchange = rig.connection().exchange
    assert exchange is not None
    state = exchange.state
    assert isinstance(state, Streaming)
    kept = sum(len(piece) for piece in state._connection.reader.pieces)
    await call.say(b"x" * 1_500_000)

    assert 0 < kept <= MOST_PIECES * (LARGE + 1)


async def test_what_is_said_of_chunks_is_relayed_as_it_came(rig: RelayRig) -> None:
    """Counting does not change the response."""
    _, answered = await rig.exchange(chat(), STREAM + chunked(event(CHAT), b"data: [DONE]\n\n"))

    assert answered.body == event(CHAT) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("cut_at", [len(CACHED), len(CACHED) - 10])
async def test_the_scheduler_learns_of_a_prompt_before_its_lease_ends(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, cut_at: int
) -> None:
    """It hears how much was computed and cached, and in what time, if the response was complete."""
    reported: list[tuple[int, int, float, int]] = []

    def note(prompt: PromptProcessed) -> None:
        reported.append((prompt.computed, prompt.cached, prompt.took_s, rig.in_flight()))

    monkeypatch.setattr(rig.dispatcher, "prompt_processed", note)
    client, call = await rig.reached(chat())
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CACHED) + CACHED[:cut_at])
    call.hang_up()
    await come_true(lambda: bool(rig.activity.entries))

    assert reported == ([(5, 900, 0.0625, 1)] if cut_at == len(CACHED) else [])
    assert rig.in_flight() == 0
    client.hang_up()


@pytest.mark.parametrize("usage", [{"prompt_tokens": 4, "completion_tokens": 3}, {"prompt_tokens_details": DETAILS}])
async def test_what_is_not_known_of_a_prompt_is_not_reported(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, usage: dict[str, Any]
) -> None:
    """Without the number of cached tokens, or of all, nothing is learned."""
    monkeypatch.setattr(rig.dispatcher, "prompt_processed", forbidden)
    body = compact({"usage": {"completion_tokens": 3, **usage}})
    await rig.exchange(chat(), b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    assert [entry.status for entry in rig.activity.entries] == [200]


async def test_a_report_that_fails_keeps_no_lease(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease ends and the request is recorded."""
    monkeypatch.setattr(rig.dispatcher, "prompt_processed", forbidden)
    _, answered = await rig.exchange(chat(), b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CACHED) + CACHED)

    assert answered.body == CACHED
    assert (rig.in_flight(), [entry.status for entry in rig.activity.entries]) == (0, [200])
