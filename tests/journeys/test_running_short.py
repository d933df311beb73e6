"""What the machine does not have: descriptors, disk. hotseat says so and goes on."""

from __future__ import annotations

import http.client
import resource
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.client import chat_body, send
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.hotseat import Hotseat


@contextmanager
def limited(rig: Hotseat, what: int, soft: int) -> Iterator[None]:
    """Take something away from the running process, and give it back."""
    before = resource.prlimit(rig.process.pid, what)
    resource.prlimit(rig.process.pid, what, (soft, before[1]))
    try:
        yield
    finally:
        resource.prlimit(rig.process.pid, what, before)


def test_descriptors_that_run_out_are_logged_and_survived(serve: Callable[..., Hotseat]) -> None:
    """Who comes meanwhile is not served; who comes afterwards is."""
    rig = serve({"a": stub("a")})
    rig.load("a")
    with limited(rig, resource.RLIMIT_NOFILE, 3):  # new ones get the lowest free number, so gaps must not help
        eventually(lambda: "no file descriptors are left" in rig.log())
        connection = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=1)  # it may be refused or not accepted
        with closing(connection), suppress(OSError, http.client.HTTPException):
            send(connection, "POST", "/v1/chat/completions", chat_body("a", 4), {})
    eventually(lambda: "file descriptors are available again" in rig.log())

    assert rig.chat("a").status == 200
    assert "Traceback" not in rig.log()


def test_a_full_disk_is_logged_and_survived(serve: Callable[..., Hotseat]) -> None:
    """The upload that does not fit is refused with the reason, and the next one is taken."""
    rig = serve({"a": stub("a")})
    rig.load("a")
    upload = "x" * (3 << 20)
    with limited(rig, resource.RLIMIT_FSIZE, 1 << 20):
        refused = rig.call("POST", "/upstream/a/upload", upload, **{"Content-Type": "application/octet-stream"})
    taken = rig.call("POST", "/upstream/a/upload", upload, **{"Content-Type": "application/octet-stream"})

    assert refused.status == 500
    assert "cannot be stored on disk" in refused.json()["error"]
    assert "an upload cannot be stored on disk" in rig.log()
    assert taken.status == 404


def test_a_request_that_never_ends_is_cut_visibly(serve: Callable[..., Hotseat]) -> None:
    """After `maxRequestDuration` the stream breaks with the reason, and the model is free for the next."""
    rig = serve({"a": stub("a", "--token-delay 0.05", maxRequestDuration=4)})
    rig.load("a")
    stream = rig.stream("a", max_tokens=1000).until_it_speaks()
    with pytest.raises(http.client.IncompleteRead) as broken:
        stream.response.read()
    stream.leave()

    assert b"maxRequestDuration" in broken.value.partial
    assert rig.chat("a", max_tokens=1).status == 200
    assert eventually(lambda: rig.call("GET", "/hotseat/models/a").json()["in_flight"] == 0)


def test_a_request_that_is_never_begun_is_an_error(serve: Callable[..., Hotseat]) -> None:
    """Where nothing was answered yet, the client gets a status and the reason."""
    rig = serve({"a": stub("a", "--token-delay 1", maxRequestDuration=0.5)})
    answer = rig.chat("a", max_tokens=30)

    assert answer.status == 502
    assert "maxRequestDuration" in answer.json()["error"]
