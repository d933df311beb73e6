"""What the real llama-server sent, and what a client of Ollama's API gets of it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ollama.recorded import ASKED, Sample, load, translate

STREAMS = [name for name in ASKED if load(name).translation.streams and name != "error"]


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in load(name).client_file.read_bytes().splitlines()]


@pytest.mark.parametrize("name", ASKED)
def test_the_same_bytes_as_recorded(name: str) -> None:
    """If the translation changes on purpose, `python -m tests.ollama` records it anew."""
    sample = load(name)

    assert translate(sample) == sample.client_file.read_bytes()


@pytest.mark.uncounted
@pytest.mark.parametrize("name", STREAMS)
def test_cut_at_every_byte(name: str) -> None:
    """The lines do not depend on how the stream arrives."""
    sample = load(name)
    whole, stream = translate(sample), sample.upstream

    # Cutting in front of every seventh byte meets every place of an event, because their lengths differ.
    for place in range(0, len(stream), 7):
        assert translate(sample, [stream[:place], stream[place:]]) == whole
    assert translate(sample, [stream[place : place + 1] for place in range(len(stream))]) == whole


@given(st.sampled_from(STREAMS), st.lists(st.integers(0, 6000), max_size=12))
def test_any_pieces_give_the_same_lines(name: str, places: list[int]) -> None:
    """Also if several events arrive at once and the next one is cut."""
    sample = load(name)
    bounds = [0, *sorted(min(place, len(sample.upstream)) for place in places), len(sample.upstream)]
    pieces = [sample.upstream[begin:end] for begin, end in itertools.pairwise(bounds)]

    assert translate(sample, pieces) == translate(sample)


@pytest.mark.parametrize("name", STREAMS)
def test_only_the_last_line_is_done(name: str) -> None:
    """It has the reason and the figures."""
    *others, last = lines(name)

    assert all(line["done"] is False for line in others)
    assert last["done"] is True
    assert last["done_reason"] in ("stop", "length")
    assert last["model"] == "alpha:latest"
    assert last["created_at"] == "2023-11-14T22:13:20.000000123Z"
    assert (last["total_duration"], last["load_duration"]) == (3_000_000_000, 1_000_000_000)
    for figure in ("prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"):
        assert isinstance(last[figure], int)
        assert last[figure]


def test_a_streamed_text_is_the_whole_text() -> None:
    """Without chance both say the same."""
    [chat], [raw] = lines("chat-whole"), lines("raw-whole")

    assert "".join(line["message"]["content"] for line in lines("chat")) == chat["message"]["content"] != ""
    assert "".join(str(line["response"]) for line in lines("raw")) == raw["response"] != ""


def test_a_text_in_the_form_that_was_asked_for() -> None:
    """The pieces make an object of the schema."""
    text = "".join(line["message"]["content"] for line in lines("schema"))

    assert isinstance(json.loads(text)["is_hot"], bool)


def test_reasoning_is_not_part_of_the_text() -> None:
    """It has its own member."""
    pieces = [line["message"] for line in lines("think")[:-1]]
    [answer] = lines("think-whole")

    assert all(piece["thinking"] and not piece["content"] for piece in pieces)
    assert answer["thinking"]
    assert answer["response"] == ""


def test_a_call_of_a_tool_comes_as_a_whole() -> None:
    """In one line before the last one, with its arguments as an object."""
    *_, calling, last = lines("tool")
    [whole] = lines("tool-whole")

    for message in (calling["message"], whole["message"]):
        for call in message["tool_calls"]:
            assert call["function"]["name"] == "weather"
            assert isinstance(call["function"]["arguments"]["is_hot"], bool)
    assert last["done"]


def test_an_unfinished_call_is_left_out() -> None:
    """The response ended at its limit, which is its reason."""
    assert lines("tool-cut")[-1]["done_reason"] == "length"
    assert not any("tool_calls" in json.dumps(line) for line in lines("tool-cut"))


def test_vectors() -> None:
    """One for each text; the older path has only one."""
    [embed], [embeddings] = lines("embed"), lines("embeddings")

    assert [len(vector) for vector in embed["embeddings"]] == [256, 256]
    assert embed["prompt_eval_count"]
    assert embeddings == {"embedding": embed["embeddings"][0]}


def test_the_text_of_an_error() -> None:
    """Ollama's errors are texts; the server's were objects."""
    [error] = lines("error")

    assert list(error) == ["error"]
    assert "temperature" in str(error["error"])


def test_a_stream_without_its_last_event_is_complete_if_the_model_stopped() -> None:
    """Some servers leave it out."""
    sample = load("chat")
    without = Sample(sample.name, 200, sample.upstream.replace(b"data: [DONE]\n\n", b""))

    assert translate(without) == translate(sample)
