"""Clients that ask a llama-server to save or restore a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import get, post

from hotseat.errors import Forbidden
from hotseat.relay.routing.slot_files import check_slot_files

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig

KEPT, OTHER = spec("alpha", keeps_conversations=True), spec("beta")


@pytest.mark.parametrize(
    "target",
    [
        b"/slots/0?action=save",
        b"/slots/0?action=restore",
        b"/slots/12?model=alpha&action=save",
        b"/slots/0?action=erase&action=save",
        b"/slots/0?action=s%61ve",
        b"/%73lots/0?%61ction=save",
        b"/slots/0/?action=save",
        b"/prefix/slots/0?action=save",
        b"/v1/slots/0?action=save",
        b"/v1/api/slots/0?action=restore",
        b"/slots/0",
        b"/slots/0?model=alpha",
    ],
)
def test_a_request_that_may_use_the_file_of_a_slot(target: bytes) -> None:
    """It is refused where hotseat keeps the conversations, and the server's business everywhere else."""
    with pytest.raises(Forbidden, match="set --slot-save-path in its command"):
        check_slot_files(KEPT, b"POST", target)
    check_slot_files(OTHER, b"POST", target)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"POST", b"/slots/0?action=erase"),
        (b"POST", b"/slots/0?model=alpha&action=erase"),
        (b"GET", b"/slots"),
        (b"GET", b"/slots/0?action=save"),
        (b"POST", b"/slots"),
        (b"POST", b"/completion?action=save"),
        (b"POST", b"/v1/chat/completions"),
    ],
)
def test_other_requests_pass(method: bytes, target: bytes) -> None:
    """Also those that look at slots or erase them."""
    check_slot_files(KEPT, method, target)


async def test_it_is_refused_before_it_loads_the_model(open_rig: OpenRig) -> None:
    """The response says what to do; the connection stays open for others."""
    rig = await open_rig(models=(KEPT, OTHER))
    client = await rig.send(post(b'{"filename":"mine"}', target="/upstream/alpha/slots/0?action=save"))
    refused = await client.message()

    assert refused.status == 403
    assert b"hotseat keeps the conversations of alpha itself" in refused.body
    assert rig.launcher.alive == []
    asked, _ = await rig.exchange(get("/slots?model=alpha"))
    assert asked.first_line.startswith("GET /slots")
