"""Which requests count as usage, for which model and key, and with which tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.relay.exchange.test_fleet_hops import at, joined
from tests.support.host_headers import SECRET, passed_on
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.scripted_upstream import on_a_port
from tests.support.waiting import come_true

from hotseat.activity.usage_store import Used
from hotseat.identifiers import HostName
from hotseat.settings import Access, ApiKey, Fleet, Settings, SignIn

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

BODY = json.dumps({"usage": {"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 4}}).encode()
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno"
NAMED = b'{"model":"alpha"}'
ONE = Used(requests=1, prompt=9, cached=4, completion=3)


def used(rig: RelayRig) -> dict[tuple[str, str], Used]:
    return {(place.model, place.key): used for place, used in rig.usage.take().items()}


async def test_usage_belongs_to_the_key_that_was_sent(open_rig: OpenRig) -> None:
    """A key without a name is called by its digest."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("anns", name="ann"), ApiKey("nameless"))))
    for key in ("anns", "nameless", "anns"):
        await rig.exchange(chat("alpha", f"Authorization: Bearer {key}"), COUNTED)
    [nameless] = [account.name for account in rig.relay.context.policy.accounts.all() if account.name != "ann"]

    assert used(rig) == {("alpha", "ann"): Used(2, 0, 18, 8, 6), ("alpha", nameless): ONE}


async def test_a_user_is_not_counted_as_the_key_of_the_same_name(open_rig: OpenRig) -> None:
    """A user who has signed in at a proxy has a prefix that no key's name has, in usage and among waiting clients."""
    sign_in = SignIn("X-Forwarded-User")
    keys = (ApiKey("anns", name="ann"),)
    rig = await open_rig(access=Access(trusted_proxies=("127.0.0.1",), sign_in=sign_in, api_keys=keys))
    await rig.exchange(chat("alpha", "X-Forwarded-User: ann"), COUNTED)
    await rig.exchange(chat("alpha", "Authorization: Bearer anns"), COUNTED)

    assert used(rig) == {("alpha", "user:ann"): ONE, ("alpha", "ann"): ONE}


async def test_usage_without_keys_is_counted_per_model(rig: RelayRig) -> None:
    """All clients together, whatever their address."""
    await rig.exchange(chat(), COUNTED)

    assert used(rig) == {("alpha", ""): ONE}


async def test_an_answer_without_tokens_is_unknown(rig: RelayRig) -> None:
    """The request is counted, and that its tokens are missing."""
    await rig.exchange(chat(), HELLO)

    assert used(rig) == {("alpha", ""): Used(requests=1, unknown=1, estimated=5)}


async def test_a_model_server_that_refuses_uses_no_tokens(rig: RelayRig) -> None:
    """Nothing is missing from the sum."""
    await rig.exchange(chat(), REFUSED)

    assert used(rig) == {("alpha", ""): Used(requests=1)}


async def test_a_client_that_leaves_has_used_an_unknown_number(rig: RelayRig) -> None:
    """The server has computed something."""
    client, _ = await rig.reached(chat())
    client.hang_up()
    await come_true(lambda: rig.activity.entries)

    assert used(rig) == {("alpha", ""): Used(requests=1, unknown=1, estimated=4)}


async def test_a_request_that_no_server_got_is_no_usage(rig: RelayRig) -> None:
    """Its client left while it waited, or its model is unknown."""
    waiting = await rig.send(chat("slow"))
    await come_true(lambda: rig.waiting() == 1)
    waiting.hang_up()
    await come_true(lambda: rig.activity.entries)
    await rig.refusal(chat("nobody"))

    assert used(rig) == {}


@pytest.mark.parametrize("request_of_no_use", [get("/props?model=alpha"), post(NAMED, target="/tokenize")])
async def test_looking_something_up_is_no_usage(rig: RelayRig, request_of_no_use: bytes) -> None:
    """The server computes no answer for these paths."""
    await rig.exchange(request_of_no_use)

    assert used(rig) == {}


async def test_tokens_count_on_every_path(rig: RelayRig) -> None:
    """A server may compute on a path that is not known to."""
    await rig.exchange(post(NAMED, target="/api/special"), COUNTED)

    assert used(rig) == {("alpha", ""): ONE}


async def test_a_forwarded_request_counts_at_the_host_that_was_asked(open_rig: OpenRig) -> None:
    """That host knows the key, and sees the tokens in the response of the other one."""
    box = on_a_port()
    rig, _ = await joined(open_rig, at("b", box))
    client = await rig.send(chat("far"))
    await (await box.call()).say(COUNTED)
    await client.message()
    await box.aclose()

    assert used(rig) == {("far", ""): ONE}


async def test_a_request_of_another_host_is_not_counted_a_second_time(open_rig: OpenRig) -> None:
    """The host that serves it leaves the counting to the host that was asked."""
    fleet = Fleet(("nats://x",), HostName("here"), secrets=(SECRET,))
    rig = await open_rig(settings=Settings(fleet=fleet))
    await rig.exchange(chat("alpha", *passed_on("alpha")), COUNTED)

    assert len(rig.activity.entries) == 1
    assert used(rig) == {}
