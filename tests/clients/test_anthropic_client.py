"""Anthropic's Python client with the real llama-server, which supports that API too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama

if TYPE_CHECKING:
    from pathlib import Path

    from anthropic.types import MessageParam

MESSAGES: list[MessageParam] = [{"role": "user", "content": "hello"}]
CERTAIN = {"temperature": 0}


@pytest.mark.llama
def test_a_streamed_message_says_what_a_plain_one_says(tmp_path: Path) -> None:
    """Both have the same text, and the stream ends properly."""
    import anthropic  # here, because it takes seconds in every worker of a run

    with (
        ForkedHotseat({"models": {"alpha": llama("alpha")}}, tmp_path) as hotseat,
        anthropic.Anthropic(base_url=hotseat.url, api_key="none") as client,
    ):
        plain = client.messages.create(model="alpha", messages=MESSAGES, max_tokens=12, extra_body=CERTAIN)
        with client.messages.stream(model="alpha", messages=MESSAGES, max_tokens=12, extra_body=CERTAIN) as stream:
            words = "".join(stream.text_stream)
            reason = stream.get_final_message().stop_reason

    assert words
    assert [words] == [block.text for block in plain.content if block.type == "text"]
    assert reason == plain.stop_reason == "max_tokens"
