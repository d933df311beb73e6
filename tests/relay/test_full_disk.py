"""A body that finds no room on the disk."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest
from tests.support.puppets import come_true
from tests.support.relay_house import get, turns

from hotseat.relay.body import IN_MEMORY, Body

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.relay_house import RelayHouse


@pytest.fixture
def small_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (IN_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(body: Body) -> None:
    """In pieces that the file's buffer keeps."""
    for _ in range(1000):
        body.add(b"x" * 5_000)


@pytest.mark.usefixtures("small_files")
def test_a_body_that_could_not_be_kept_can_be_thrown_away() -> None:
    """What is still buffered for the file fails once more as it is closed; nobody needs it."""
    body = Body(may_spool=True)
    with pytest.raises(OSError, match="File too large"):
        fill(body)

    body.close()


@pytest.mark.usefixtures("small_files")
async def test_an_upload_whose_last_bytes_find_no_room_is_answered(house: RelayHouse) -> None:
    """They waited in the file's buffer; no lease is taken for what cannot be sent."""
    length = IN_MEMORY + 2_000
    client = await house.send(get("/up?model=alpha", f"Content-Length: {length}", method="POST") + b"x" * IN_MEMORY)
    await come_true(lambda: house.relay.buffered == IN_MEMORY)
    for size in (1, 1_999):
        await client.send(b"x" * size)
        await turns()
    answered = await client.message()

    assert answered.status == 500
    assert b"cannot be kept on disk" in answered.body
    assert house.in_flight() == 0
