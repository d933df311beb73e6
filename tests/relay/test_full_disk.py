"""A body that finds no room on the disk."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from hotseat.relay.body import IN_MEMORY, Body

if TYPE_CHECKING:
    from collections.abc import Iterator


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
