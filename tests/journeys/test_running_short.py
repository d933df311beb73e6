"""What the machine does not have: descriptors, disk. hotseat says so and goes on."""

from __future__ import annotations

import http.client
import os
import resource
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.support.client import eventually
from tests.support.stubs import stub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.hotseat import Hotseat


@contextmanager
def limited(house: Hotseat, what: int, soft: int) -> Iterator[None]:
    """Take something away from the running process, and give it back."""
    before = resource.prlimit(house.process.pid, what)
    resource.prlimit(house.process.pid, what, (soft, before[1]))
    try:
        yield
    finally:
        resource.prlimit(house.process.pid, what, before)


def test_descriptors_that_run_out_are_told_and_survived(serve: Callable[..., Hotseat]) -> None:
    """Who comes meanwhile is not served; who comes afterwards is."""
    house = serve({"a": stub("a")})
    house.load("a")
    open_now = len(os.listdir(f"/proc/{house.process.pid}/fd"))
    with limited(house, resource.RLIMIT_NOFILE, open_now - 2):
        eventually(lambda: "no file descriptors are left" in house.log())
        with suppress(OSError, http.client.HTTPException):
            house.chat("a")
    eventually(lambda: "file descriptors are free again" in house.log())

    assert house.chat("a").status == 200
    assert "Traceback" not in house.log()


def test_a_full_disk_is_told_and_survived(serve: Callable[..., Hotseat]) -> None:
    """The upload that does not fit is refused with the reason, and the next one is taken."""
    house = serve({"a": stub("a")})
    house.load("a")
    upload = "x" * (3 << 20)
    with limited(house, resource.RLIMIT_FSIZE, 1 << 20):
        refused = house.call("POST", "/upstream/a/upload", upload, **{"Content-Type": "application/octet-stream"})
    taken = house.call("POST", "/upstream/a/upload", upload, **{"Content-Type": "application/octet-stream"})

    assert refused.status == 500
    assert "cannot be kept on disk" in refused.json()["error"]
    assert "an upload cannot be kept on disk" in house.log()
    assert taken.status == 404
