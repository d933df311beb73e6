"""Responses that llama-server does not send, and those that cannot be translated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotseat.errors import UpstreamError
from hotseat.ollama.completions import LONGEST_NAME, MOST_ARGUMENTS, MOST_CALLS, MOST_OF_AN_ERROR, error_text
from hotseat.ollama.requests import Answer
from hotseat.ollama.responses import MOST_OBJECTS, MOST_VALUES, Situation, StreamTranslator, translated

DONE = "[DONE]"


class Stream:
    """A stream to a chat; each event takes a second, after one of waiting."""

    def __init__(self, answer: Answer = Answer.MESSAGE) -> None:
        self.seconds = 1.0
        situation = Situation("qwen", lambda: 0, lambda: self.seconds, 1.0)
        self.translator = StreamTranslator(answer, situation)

    def feed(self, *events: object) -> list[dict[str, Any]]:
        lines = b""
        for event in events:
            self.seconds += 1
            data = event if isinstance(event, str) else json.dumps(event)
            more, problem = self.translator.feed(f"data: {data}\n\n".encode())
            lines += more
            if problem is not None:
                raise problem
        return [json.loads(line) for line in lines.splitlines()]


def delta(reason: str | None = None, **said: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": reason}]}


def whole(answer: Answer, body: object) -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dict(json.loads(translated(answer, Situation("qwen", lambda: 0, lambda: 3.0, 1.0), data)))


def test_a_server_that_measures_nothing() -> None:
    """Durations are then what was seen from here, and counts come from the usage."""
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}

    *_, last = Stream().feed(delta(role="assistant", content=""), delta(content="a"), delta("stop"), usage, DONE)

    assert last == {
        "model": "qwen",
        "created_at": "1970-01-01T00:00:00.000000000Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 6_000_000_000,
        "load_duration": 1_000_000_000,
        "prompt_eval_count": 7,
        "eval_count": 2,
        "prompt_eval_duration": 1_000_000_000,
        "eval_duration": 4_000_000_000,
    }


def test_reasoning_as_vllm_calls_it() -> None:
    """Both names mean the same."""
    [line] = Stream().feed(delta(reasoning="hm"))

    assert line["message"] == {"role": "assistant", "content": "", "thinking": "hm"}


def test_texts_pass_as_they_were_written() -> None:
    """Their escapes are not resolved and made again."""
    stream = Stream()
    lines, _ = stream.translator.feed(b'data: {"choices":[{"delta":{"content":"a\\u00e9\\n\\""}}]}\n\n')

    assert b'"content":"a\\u00e9\\n\\""' in lines


def test_calls_in_pieces() -> None:
    """They are sent when the model has stopped, in the order of their numbers."""

    def piece(index: int, arguments: str, **more: str) -> dict[str, object]:
        return {"index": index, **more, "function": {"arguments": arguments, **({"name": "f"} if more else {})}}

    stream = Stream()
    begun = stream.feed(
        delta(tool_calls=[piece(1, "", id="b")]),
        delta(tool_calls=[piece(0, '{"x"', id="a"), piece(1, " ")]),
        delta(tool_calls=[piece(0, ":1}")]),
        delta("tool_calls"),
    )
    calls, last = stream.feed(DONE)

    assert begun == []
    assert calls["message"]["tool_calls"] == [
        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"id": "b", "function": {"name": "f", "arguments": {}}},
    ]
    assert last["done_reason"] == "stop"


def test_arguments_with_line_breaks() -> None:
    """A line of the stream stays one line, whatever blanks the model writes between its arguments."""
    stream = Stream()
    arguments = '{\n  "x": [1,\r\n 2],\n  "y": "a\\n b"\n}'
    calls, _ = stream.feed(delta("tool_calls", tool_calls=[{"function": {"name": "f", "arguments": arguments}}]), DONE)

    assert calls["message"]["tool_calls"] == [{"function": {"name": "f", "arguments": {"x": [1, 2], "y": "a\n b"}}}]


@pytest.mark.parametrize("index", [{}, {"index": None}])
def test_calls_without_a_number(index: dict[str, None]) -> None:
    """A new id begins a call, and what has none belongs to the last one; without any id, a name begins one."""

    def piece(arguments: str, name: str | None = None, **more: str) -> dict[str, object]:
        return {**index, **more, "function": {"name": name, "arguments": arguments}}

    stream = Stream()
    stream.feed(
        delta(tool_calls=[piece('{"x"', "f", id="a")]),
        delta(tool_calls=[piece(":1", id="a")]),
        delta(tool_calls=[piece("}"), piece("{}", "g", id="b")]),
    )
    calls, _ = stream.feed(delta("tool_calls"), DONE)

    assert calls["message"]["tool_calls"] == [
        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"id": "b", "function": {"name": "g", "arguments": {}}},
    ]


def test_calls_with_neither_number_nor_id() -> None:
    """A call that has its name and complete arguments is not continued by another name."""
    pieces = [{"function": {"name": name, "arguments": "{}"}} for name in ("f", "g")]
    calls, _ = Stream().feed(delta("tool_calls", tool_calls=pieces), DONE)

    assert [call["function"]["name"] for call in calls["message"]["tool_calls"]] == ["f", "g"]


def test_a_name_that_is_sent_with_every_piece() -> None:
    """It is not doubled, while one in pieces is put together."""

    def piece(index: int, name: str, arguments: str = "") -> dict[str, object]:
        return {"index": index, "id": str(index), "function": {"name": name, "arguments": arguments}}

    pieces = [piece(0, "get", "{"), piece(0, "get", "}"), piece(1, "get_"), piece(1, "more", "{}")]
    calls, _ = Stream().feed(delta("tool_calls", tool_calls=pieces), DONE)

    assert [call["function"]["name"] for call in calls["message"]["tool_calls"]] == ["get", "get_more"]


@pytest.mark.parametrize("more", [{"stop": None}, {"stop_type": None}, {"timings": {"prompt_n": 1, "prompt_ms": None}}])
def test_members_that_are_null(more: dict[str, object]) -> None:
    """Null is the same as left out."""
    lines = Stream().feed({**delta("stop", content="a"), **more}, DONE)

    assert [line["message"]["content"] for line in lines] == ["a", ""]
    assert whole(Answer.MESSAGE, {"choices": [{"message": {"content": "a"}}], **more})["message"]["content"] == "a"


@pytest.mark.parametrize("figure", [10**20, -1, 1e307, -5.5])
def test_figures_that_no_client_could_read(figure: float) -> None:
    """They are left out, and the rest of the response is what it was."""
    counts = dict.fromkeys(("prompt_n", "predicted_n"), figure) if type(figure) is int else {}
    timings = {"prompt_ms": figure, "predicted_ms": 2.0, **counts}
    answer = whole(Answer.MESSAGE, {"choices": [{"message": {"content": "a"}}], "timings": timings})
    [*_, last] = Stream().feed({**delta("stop", content="a"), "timings": timings}, DONE)
    vectors = {"data": [{"embedding": [1]}], "usage": {"prompt_tokens": round(figure)}}

    assert answer["message"]["content"] == "a"
    assert [each["eval_duration"] for each in (answer, last)] == [2_000_000] * 2
    assert not {"prompt_eval_count", "prompt_eval_duration", "eval_count"} & (answer.keys() | last.keys())
    assert whole(Answer.EMBEDDINGS, vectors).keys() == {"model", "embeddings", "total_duration", "load_duration"}


def test_a_blank_after_the_end() -> None:
    """It ends the stream all the same."""
    *_, last = Stream().feed(delta("stop", content="a"), "[DONE] ")

    assert last["done"]


def test_arguments_that_are_no_object() -> None:
    """No client of Ollama's API could read them."""
    stream = Stream()
    stream.feed(delta("tool_calls", tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "[1]"}}]))

    with pytest.raises(UpstreamError, match='arguments of the call of "f"'):
        stream.feed(DONE)


def test_a_piece_of_a_call_that_says_nothing() -> None:
    """It begins no call."""
    calls, _ = Stream().feed(delta("tool_calls", tool_calls=[{"index": 0}, {"index": 1, "id": "a"}]), DONE)

    assert calls["message"]["tool_calls"] == [{"id": "a", "function": {"name": "", "arguments": {}}}]


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([[{"index": number, "id": "a"}] for number in range(MOST_CALLS + 1)], f"more than {MOST_CALLS} calls"),
        ([[{"index": 0}] * (MOST_CALLS + 1)], f"{MOST_CALLS} calls of tools at once"),
        ([[{"index": 0, "function": {"name": name * 600}}] for name in "ab"], f"{LONGEST_NAME} characters"),
        ([[{"index": 0, "id": "x" * (LONGEST_NAME + 1)}]], f"{LONGEST_NAME} characters"),
        ([[{"index": 0, "function": {"arguments": "x" * 500_000}}]] * 9, f"{MOST_ARGUMENTS} bytes"),
    ],
    ids=["calls", "pieces in one event", "name", "id", "arguments"],
)
def test_calls_without_an_end(events: list[list[dict[str, Any]]], what: str) -> None:
    """They are collected up to a limit in their number, their names and their arguments."""
    stream = Stream()
    stream.feed(*(delta(tool_calls=pieces) for pieces in events[:-1]))

    with pytest.raises(UpstreamError, match=what):
        stream.feed(delta(tool_calls=events[-1]))


@pytest.mark.parametrize(
    "event",
    ["not json", "[]", '{"choices": 7}', '{"error": {"message": "out of memory"}}', '{"error": "out of memory"}'],
)
def test_an_event_that_cannot_be_translated(event: str) -> None:
    """What came before it is not lost, and what it says is the error."""
    stream = Stream()
    data = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: %b\n\n' % event.encode()

    lines, problem = stream.translator.feed(data)

    assert json.loads(lines)["message"]["content"] == "a"
    assert problem is not None
    assert ("out of memory" if "memory" in event else "cannot be translated") in problem.message


def test_a_stream_that_just_ends() -> None:
    """Without a reason it may be half a response."""
    stream = Stream()
    stream.feed(delta(content="a"))

    with pytest.raises(UpstreamError, match="without a reason"):
        stream.translator.end()


def test_nothing_follows_the_end() -> None:
    """A second end would be a second response."""
    stream = Stream()
    stream.feed(delta("stop", content="a"), DONE)

    assert stream.feed(delta(content="b"), DONE) == []
    assert stream.translator.end() == b""


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"error":"no"}'])
def test_a_whole_response_that_is_none(body: bytes) -> None:
    """The client gets an error instead of an empty text."""
    with pytest.raises(UpstreamError):
        whole(Answer.MESSAGE, body)
    with pytest.raises(UpstreamError):
        whole(Answer.EMBEDDINGS, body)


def test_vectors_in_another_order() -> None:
    """Each belongs to the text with its number."""
    data = [{"index": 1, "embedding": [1.5]}, {"index": 0, "embedding": [0.5]}]

    assert whole(Answer.EMBEDDINGS, {"data": data})["embeddings"] == [[0.5], [1.5]]
    assert whole(Answer.EMBEDDING, {"data": data}) == {"embedding": [0.5]}
    assert whole(Answer.EMBEDDING, {"data": []}) == {"embedding": []}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":{"message":"too long","type":"invalid_request_error"}}', "too long"),
        (b'{"error":"too long"}', "too long"),
        (b'{"object":"error","message":"too long"}', "too long"),
        (b'{"detail":"too long"}', "too long"),
        (b'{"error":{"code":7}}', '{"code":7}'),
        (b"<html>\n too  long", "<html> too long"),
        (b'{"error":"\xff"}', '{"error":"\ufffd"}'),
        (b"x" * 9000, "x" * 500),
        (b'{"error":"%b"}' % (b"x" * MOST_OF_AN_ERROR), '{"error":"' + "x" * 490),
        (b"", "the model server responded 502 without a text"),
        (b"{}", "the model server responded 502 without a text"),
    ],
)
def test_the_text_of_an_error(body: bytes, text: str) -> None:
    """Servers wrap it in different ways."""
    assert error_text(body, 502) == text


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":[%b{}]}' % (b"{}," * MOST_OBJECTS),
        b'{"data":[{"embedding":[%b0]}]}' % (b"0," * (MOST_VALUES + 1)),
    ],
    ids=["objects", "values"],
)
def test_a_whole_response_of_too_many_values(body: bytes) -> None:
    """Each takes time in which nobody else is served."""
    with pytest.raises(UpstreamError, match="has more than"):
        whole(Answer.EMBEDDINGS, body)
