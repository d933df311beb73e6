"""However hotseat ends, no model server outlives it, and no stream is cut that could be finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.client import eventually

if TYPE_CHECKING:
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_a_killed_hotseat_leaves_nobody_behind(house: Hotseat) -> None:
    """kill -9 of hotseat ends its model servers too."""
    house.load("alpha")
    running = house.upstreams()
    house.process.kill()
    house.process.wait()

    assert len(running) == 1
    assert eventually(lambda: not house.processes(), within=5)


def test_sigterm_lets_a_stream_finish(house: Hotseat) -> None:
    """On SIGTERM the stream under way is finished, the model stopped, and the exit code is 0."""
    stream = house.stream("alpha", max_tokens=2000).until_it_speaks()
    house.process.terminate()
    stream.read()

    assert (len(stream.words), stream.done) == (2000, True)
    assert house.terminate() == 0
    assert house.processes() == []
