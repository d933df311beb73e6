"""Journeys: the installed program against the real llama-server, as a person would use both."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import EMBEDDINGS, llama

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.hotseat import Hotseat


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Hotseat]]:
    """Start hotseat with these models and settings; it is stopped when the test ends."""
    with ExitStack() as stack:

        def start(models: Mapping[str, Any], **settings: object) -> Hotseat:
            hotseat = ForkedHotseat({**settings, "models": models}, tmp_path)
            stack.callback(lambda: print(hotseat.log()))  # pytest shows it when the test fails
            return stack.enter_context(hotseat)

        yield start


@pytest.fixture
def rig(serve: Callable[..., Hotseat]) -> Hotseat:
    """Two chat models and one for embeddings, one at a time."""
    return serve({"alpha": llama("alpha"), "beta": llama("beta"), "embed": llama("embed", EMBEDDINGS)})
