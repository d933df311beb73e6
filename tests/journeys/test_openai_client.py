"""OpenAI's own Python client, unchanged but for its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


@pytest.fixture
def client(rig: Hotseat) -> Iterator[openai.OpenAI]:
    import openai  # here, because it takes seconds in every worker of a run

    with openai.OpenAI(base_url=f"{rig.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
        yield client


def test_models_are_listed(client: openai.OpenAI, rig: Hotseat) -> None:
    """The client's list of models is the configuration's, and listing starts none."""
    names = [model.id for model in client.models.list()]

    assert sorted(names) == ["alpha", "beta", "embed"]
    assert rig.running() == []


def test_chat_and_stream(client: openai.OpenAI) -> None:
    """A streamed chat says the same words as a plain one."""
    plain = client.chat.completions.create(
        model="alpha", messages=[{"role": "user", "content": "hello"}], max_tokens=12, temperature=0
    )
    stream = client.chat.completions.create(
        model="alpha", messages=[{"role": "user", "content": "hello"}], max_tokens=12, temperature=0, stream=True
    )
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

    assert plain.choices[0].message.content
    assert streamed == plain.choices[0].message.content


def test_embeddings_through_the_client(client: openai.OpenAI) -> None:
    """One vector per input, as floats."""
    result = client.embeddings.create(model="embed", input=["one", "two"], encoding_format="float")

    assert [len(entry.embedding) for entry in result.data] == [256, 256]


def test_the_text_of_an_error_is_seen(client: openai.OpenAI) -> None:
    """What the exception prints names the model that does not exist."""
    import openai

    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="aplha", messages=[{"role": "user", "content": "hello"}])

    assert "aplha" in str(caught.value)
    assert caught.value.code == "model_not_found"
