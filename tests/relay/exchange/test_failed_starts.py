"""A model that cannot start: what each client learns, and when its server counts as working."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.host_headers import SECRET, passed_on
from tests.support.relay_rig import chat
from tests.support.waiting import come_true

from hotseat.identifiers import HostName, ModelName
from hotseat.settings import Access, ApiKey, Fleet, Role, Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

BEARER = "Authorization: Bearer "
KEYS = (ApiKey("anns", Role.INFERENCE), ApiKey("olas", Role.OPERATE), ApiKey("adas", Role.ADMIN))
OUTPUT = ("loading", "error: no kernel image", "----", "")
LAST_LINE = b"error: no kernel image"


async def test_without_keys_the_error_has_the_servers_last_line(rig: RelayRig) -> None:
    """Without keys, the 503 is one short line with the server's last line of output."""
    rig.launcher.broken, rig.launcher.output = ("alpha",), OUTPUT
    refused = await rig.refusal(chat())

    assert refused.status == 503
    assert refused.body == b'{"error":"alpha exited with code 1 Last output: \\"error: no kernel image\\""}'
    assert len(refused.body) < 400


@pytest.mark.parametrize(("key", "sees_it"), [("anns", False), ("olas", True), ("adas", True)])
async def test_with_keys_only_operators_see_what_a_server_wrote(open_rig: OpenRig, key: str, sees_it: bool) -> None:
    """With keys, only operate and admin keys see the server's output; others get only the exit code."""
    rig = await open_rig(access=Access(api_keys=KEYS))
    rig.launcher.broken, rig.launcher.output = ("alpha",), OUTPUT
    refused = await rig.refusal(chat("alpha", BEARER + key))

    assert refused.status == 503
    assert b"alpha exited with code 1" in refused.raw
    assert (LAST_LINE in refused.raw) is sees_it


async def test_a_host_of_the_fleet_does_not_get_what_a_server_wrote(open_rig: OpenRig) -> None:
    """A request forwarded by another host gets the exit code without the server's output."""
    fleet = Fleet(nats=("nats://127.0.0.1:1",), name=HostName("b"), secrets=(SECRET,))
    rig = await open_rig(settings=Settings(fleet=fleet))
    rig.launcher.broken, rig.launcher.output = ("alpha",), OUTPUT
    refused = await rig.refusal(chat("alpha", *passed_on(to="b", role="operate")))

    assert b"alpha exited with code 1" in refused.raw
    assert LAST_LINE not in refused.raw


async def test_the_next_request_tries_again_at_once(rig: RelayRig) -> None:
    """The second request starts the model again; the third gets an error with Retry-After."""
    rig.launcher.broken = ("alpha",)
    refusals = [await rig.refusal(chat()) for _ in range(3)]

    assert [bool(refused.all("Retry-After")) for refused in refusals] == [False, False, True]
    assert b"alpha is not ready: it failed 2 times in a row" in refusals[2].body


@pytest.mark.parametrize(
    ("answer", "failures"),
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0), (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", 1)],
    ids=["whole", "half"],
)
async def test_a_server_that_answered_to_the_end_works(rig: RelayRig, answer: bytes, failures: int) -> None:
    """After a complete response a crash is not a failure; after a partial one it is."""
    client, call = await rig.reached(chat())
    await call.say(answer)
    call.hang_up()
    await client.read_until(b"ok")
    await come_true(lambda: rig.in_flight() == 0)
    rig.launcher.crash("alpha", "was killed by SIGKILL")
    await come_true(lambda: rig.phase("alpha") == "cold")

    assert rig.dispatcher.views.of(ModelName("alpha")).failures == failures
