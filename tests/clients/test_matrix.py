"""The most common clients, each in every situation; `python -m clients` tests the rest."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from clients.caller import calling
from clients.client_list import TESTED, Client
from clients.rig import open_rig
from clients.situations import SITUATIONS, ClientFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clients.caller import Caller
    from clients.rig import Rig


EVERYDAY = ("openai-python 3", "openai-node")
"""OpenAI's clients in both languages; tests/relay and tests/ollama test what the others ask for."""
CLIENTS = [
    pytest.param(client, id=client.name, marks=[] if client.name in EVERYDAY else pytest.mark.deep) for client in TESTED
]


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return request.param  # type: ignore[no-any-return]  # pytest does not know the type


@pytest.fixture(scope="module")
def rig(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One hotseat per client, so that counts and failures belong to that client alone."""
    with open_rig(tmp_path_factory.mktemp("hotseat")) as rig:
        yield rig


@pytest.fixture(scope="module")
def caller(client: Client, rig: Rig) -> Iterator[Caller]:
    with calling(client.argv, rig.url) as caller:
        yield caller


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_client_in_a_situation(
    client: Client, rig: Rig, caller: Caller, situation: Callable[[Rig, Caller], None]
) -> None:
    """The client does what its user needs, unless it is known not to; then it still does not."""
    limited = situation.__name__ in client.limits

    with pytest.raises(ClientFailure) if limited else nullcontext():
        situation(rig, caller)
