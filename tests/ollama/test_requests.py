"""Requests of Ollama's API, translated to OpenAI's, and `keep_alive` in all the forms that clients send."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.errors import ClientError, TooLarge
from hotseat.identifiers import CENTURY_S
from hotseat.ollama.requests import ENDPOINTS, MOST_PARTS, Asked, KeepAlive, keep_alive_s

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}}
PNG, JPEG, GIF, WEBP = "iVBORw0KGgoAAAAN", "/9j/4AAQSkZJRgAB", "R0lGODlhAQABAIAA", "UklGRiQAAABXRUJQVlA4"
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def asked(path: str, **members: object) -> Asked:
    return ENDPOINTS[path.encode()].read(json.dumps({"model": "qwen", **members}).encode())


def sent(path: str, **members: object) -> tuple[str, dict[str, Any]]:
    """Where the request goes, and its body without what every one has."""
    request = asked(path, **members)
    body = json.loads(request.body("qwen"))
    assert body.pop("model") == "qwen"
    return request.target.decode(), body


def test_a_chat() -> None:
    """Messages stay as they are, and streaming is the default; token counts are asked for."""
    assert sent("/api/chat", messages=HELLO) == ("/v1/chat/completions", {"messages": HELLO, **STREAMED})
    assert sent("/api/chat", messages=HELLO, stream=None)[1]["stream"]
    assert sent("/api/chat", messages=HELLO, stream=False) == ("/v1/chat/completions", {"messages": HELLO})
    assert asked("/api/chat", messages=HELLO).translation.streams
    assert not asked("/api/chat", messages=HELLO, stream=False).translation.streams


def test_a_prompt_is_a_message() -> None:
    """The model's template is applied to it, with the system prompt before it."""
    system = {"role": "system", "content": "be brief"}

    assert sent("/api/generate", prompt="hello", stream=False) == ("/v1/chat/completions", {"messages": HELLO})
    assert sent("/api/generate", prompt="hello", system="be brief")[1]["messages"] == [system, *HELLO]


def test_a_raw_prompt_gets_no_template() -> None:
    """It goes to the path where prompts are plain text."""
    raw = {"prompt": "[INST] hello", "raw": True, "stream": False}

    assert sent("/api/generate", **raw) == ("/v1/completions", {"prompt": "[INST] hello"})


def test_a_gap_is_filled() -> None:
    """A prompt with a suffix goes to llama-server's path for that."""
    target, body = sent("/api/generate", prompt="def f(", suffix="return 1", options={"num_predict": 9}, stream=False)

    assert (target, body) == ("/infill", {"input_prefix": "def f(", "input_suffix": "return 1", "max_tokens": 9})


def test_options_of_one_request_are_passed_on() -> None:
    """What the server reads only when it starts is left out, and so is what says nothing."""
    options = {
        "num_predict": 12, "temperature": 0.5, "top_k": 20, "top_p": 0.9, "min_p": 0.1, "seed": 7, "stop": ["\n"],
        "repeat_penalty": 1.2, "repeat_last_n": 33, "presence_penalty": 1.5, "frequency_penalty": 1, "typical_p": 0.7,
        "num_keep": 5, "num_ctx": 1024, "num_gpu": 1, "num_thread": 8, "use_mmap": True, "mirostat": None,
    }  # fmt: skip

    _, body = sent("/api/chat", messages=HELLO, options=options, stream=False)

    assert body == {
        "messages": HELLO, "max_tokens": 12, "temperature": 0.5, "top_k": 20, "top_p": 0.9, "min_p": 0.1, "seed": 7,
        "stop": ["\n"], "repeat_penalty": 1.2, "repeat_last_n": 33, "presence_penalty": 1.5, "frequency_penalty": 1,
        "typical_p": 0.7, "n_keep": 5,
    }  # fmt: skip


@pytest.mark.parametrize("most", [-1, -2, None])
def test_a_response_without_a_limit(most: int | None) -> None:
    """Ollama's negative numbers mean no limit, which is the server's default."""
    assert "max_tokens" not in sent("/api/chat", messages=HELLO, options={"num_predict": most})[1]


def test_the_form_of_the_answer() -> None:
    """JSON of any kind, or of a schema; nothing if there is none."""
    strict = {"name": "response", "strict": True, "schema": SCHEMA}

    assert sent("/api/chat", messages=HELLO, format="json")[1]["response_format"] == {"type": "json_object"}
    assert sent("/api/generate", prompt="hello", format=SCHEMA)[1]["response_format"] == {
        "type": "json_schema",
        "json_schema": strict,
    }
    assert sent("/api/generate", prompt="hello", raw=True, format=SCHEMA)[1]["json_schema"] == SCHEMA
    for nothing in ("", None):
        assert "response_format" not in sent("/api/chat", messages=HELLO, format=nothing)[1]
    with pytest.raises(ClientError, match="format"):
        sent("/api/chat", messages=HELLO, format="xml")


@pytest.mark.parametrize(
    ("think", "members"),
    [
        (None, {}),
        ("", {}),
        (True, {"chat_template_kwargs": {"enable_thinking": True}}),
        (False, {"chat_template_kwargs": {"enable_thinking": False}}),
        (
            "high",
            {
                "chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "high"},
                "reasoning_effort": "high",
            },
        ),
    ],
)
def test_reasoning_is_a_matter_of_the_template(think: bool | str | None, members: dict[str, Any]) -> None:
    """Templates read these names; a level is sent as OpenAI's API has it, too."""
    assert sent("/api/chat", messages=HELLO, think=think, stream=False)[1] == {"messages": HELLO, **members}


@pytest.mark.parametrize(("image", "kind"), [(PNG, "png"), (JPEG, "jpeg"), (GIF, "gif"), (WEBP, "webp")])
def test_an_image_gets_its_type(image: str, kind: str) -> None:
    """Ollama's clients send bare base64; OpenAI's API has the type in front of it."""
    messages = [{"role": "user", "content": "what is this?", "images": [image]}]
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{image}"}},
    ]

    assert sent("/api/chat", messages=messages)[1]["messages"] == [{"role": "user", "content": parts}]
    assert sent("/api/generate", prompt="what is this?", images=[image])[1]["messages"][0]["content"] == parts


@pytest.mark.parametrize("image", ["", "no base64!", "aGVsbG8gd29ybGQh"])
def test_what_is_no_image_is_refused(image: str) -> None:
    """No server could show it to a model."""
    with pytest.raises(ClientError, match="image"):
        asked("/api/chat", messages=[{"role": "user", "content": "", "images": [image]}])
    with pytest.raises(ClientError, match="raw"):
        asked("/api/generate", prompt="hello", raw=True, images=[PNG])


def test_calls_of_tools_and_their_results() -> None:
    """Arguments become text, and each result gets the id of the call of its tool."""
    call = {"function": {"name": "weather", "arguments": {"city": "Köln"}}}
    time = {"function": {"name": "time", "arguments": {}}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call, time, call]},
        {"role": "tool", "tool_name": "time", "content": "noon"},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
        {"role": "tool", "content": "sun"},
    ]

    _, body = sent("/api/chat", messages=messages, tools=[TOOL], stream=False)
    _, assistant, *results = body["messages"]

    assert body["tools"] == [TOOL]
    assert assistant["reasoning_content"] == "hm"
    assert [json.loads(made["function"]["arguments"]) for made in assistant["tool_calls"]] == [
        {"city": "Köln"},
        {},
        {"city": "Köln"},
    ]
    ids = [made["id"] for made in assistant["tool_calls"]]
    assert [result["tool_call_id"] for result in results] == [ids[1], ids[0], ids[2]]
    assert [result.get("name") for result in results] == ["time", "weather", None]


def test_ids_of_calls_are_kept() -> None:
    """A client that sends ids says itself which result belongs to which call."""
    call = {"id": "a7", "function": {"name": "weather", "arguments": '{"city":"Bonn"}'}}
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a7", "content": "rain"},
        {"role": "tool", "content": "nobody asked"},
    ]

    made, result, stray = sent("/api/chat", messages=messages)[1]["messages"]

    assert made["tool_calls"][0] == {
        "id": "a7",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Bonn"}'},
    }
    assert (result["tool_call_id"], stray["tool_call_id"]) == ("a7", "")


def test_texts_to_embed() -> None:
    """One or several; the older path has another name for the text."""
    common = {"encoding_format": "float"}

    assert sent("/api/embed", input="one") == ("/v1/embeddings", {"input": "one", **common})
    assert sent("/api/embed", input=["one", "two"], dimensions=64, truncate=True, options={"num_ctx": 9}) == (
        "/v1/embeddings",
        {"input": ["one", "two"], "dimensions": 64, **common},
    )
    assert sent("/api/embeddings", prompt="one") == ("/v1/embeddings", {"input": "one", **common})
    assert not asked("/api/embed", input="one", stream=True).translation.streams
    for path in ("/api/embed", "/api/embeddings"):
        with pytest.raises(ClientError, match="empty"):
            asked(path)


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("/api/chat", {}),
        ("/api/chat", {"messages": []}),
        ("/api/chat", {"messages": None}),
        ("/api/generate", {}),
        ("/api/generate", {"prompt": ""}),
        ("/api/generate", {"prompt": None, "system": "be brief"}),
    ],
)
def test_a_request_without_a_text_only_loads(path: str, members: dict[str, object]) -> None:
    """There is nothing to send to a model server."""
    request = asked(path, keep_alive=0, **members)

    assert request.members is None
    assert request.translation.keep_alive == KeepAlive(0.0)


def test_how_long_the_model_stays() -> None:
    """It is no part of what the model server gets."""
    request = asked("/api/chat", messages=HELLO, keep_alive="5m")

    assert request.translation.keep_alive == KeepAlive(300.0)
    assert asked("/api/chat", messages=HELLO).translation.keep_alive is None
    assert b"keep_alive" not in request.body("qwen")


@pytest.mark.parametrize(
    "members",
    [
        {"messages": "hello"},
        {"messages": [{"content": "hello"}]},
        {"messages": HELLO, "options": []},
        {"messages": HELLO, "stream": "yes"},
        {"model": 7, "messages": HELLO},
    ],
)
def test_a_body_of_another_form_is_not_accepted(members: dict[str, Any]) -> None:
    """The error says which member is wrong."""
    with pytest.raises(msgspec.ValidationError, match=r"\$\."):
        asked("/api/chat", **members)


def test_arguments_that_are_no_object_are_refused() -> None:
    """A template could not show them to the model."""
    call = {"function": {"name": "weather", "arguments": [1]}}
    with pytest.raises(ClientError, match="arguments"):
        asked("/api/chat", messages=[{"role": "assistant", "tool_calls": [call]}])


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("/api/chat", {"messages": HELLO * (MOST_PARTS + 1)}),
        ("/api/chat", {"messages": [{**HELLO[0], "images": [PNG] * MOST_PARTS}]}),
        ("/api/chat", {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}] * MOST_PARTS}]}),
        ("/api/generate", {"prompt": "hello", "images": [PNG] * MOST_PARTS}),
    ],
    ids=["messages", "images", "calls", "images of a prompt"],
)
def test_a_request_of_too_many_parts_is_refused(path: str, members: dict[str, Any]) -> None:
    """Each of them takes time in which nobody else is served."""
    with pytest.raises(TooLarge, match="10,000 messages"):
        asked(path, **members)


def test_members_that_say_nothing() -> None:
    """Some clients send every member of a message."""
    message = HELLO[0] | dict.fromkeys(("images", "tool_calls", "tool_name", "tool_call_id", "thinking"))

    assert sent("/api/chat", messages=[message], tools=None, options=None, stream=False)[1] == {"messages": HELLO}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (0.0, 0.0),
        ("0", 0.0),
        ("0s", 0.0),
        (300, 300.0),
        (1.5, 1.5),
        ("300", 300.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("+.5s", 0.5),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("2000000µs", 2.0),
        ("3000000000ns", 3.0),
    ],
    ids=repr,
)
def test_durations(value: Any, seconds: float) -> None:
    """A number is in seconds, and a text is a duration of Go or a number."""
    assert keep_alive_s(value) == seconds


@pytest.mark.parametrize(
    "value", [-1, -0.5, "-1", "-1m", "-1h30m", CENTURY_S, 10**400, "9" * 60, "999999999h"], ids=repr
)
def test_for_ever(value: Any) -> None:
    """A negative value keeps the model, and so does one beyond what clocks can be set to."""
    assert keep_alive_s(value) is None


@pytest.mark.parametrize(
    "value", ["", "soon", "5 m", "5m5", " 5m", "5x", "m", "5m-3s", "٥m", "1" * 65, True, [], {}, None], ids=repr
)
def test_no_durations(value: Any) -> None:
    """Anything else is refused with the forms that are accepted."""
    with pytest.raises(ClientError, match='a duration such as "5m"'):
        keep_alive_s(value)


@given(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.from_regex(r"-?([0-9]{1,30}(ms|s|m|h)){1,3}"))
)
def test_whatever_a_client_sends(value: Any) -> None:
    """The result is a time that a clock can be set to, or an error of the client."""
    try:
        seconds = keep_alive_s(value)
    except ClientError:
        return
    assert seconds is None or 0 <= seconds < CENTURY_S
