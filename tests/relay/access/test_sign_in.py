"""Users who sign in at a reverse proxy: who is believed, what they may do, and what becomes of the headers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.support.relay_rig import HELLO, chat, get
from tests.support.waiting import come_true

from hotseat.relay.access.policy import Policy
from hotseat.relay.access.sign_in import LONGEST_USER
from hotseat.settings import Access, ApiKey, Role, Settings, SignIn
from hotseat.state.audit_file import UNPRIVILEGED

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message

PROXY, ELSEWHERE = "127.0.0.1", "127.0.0.2"
SIGN_IN = SignIn("X-Forwarded-User", "X-Forwarded-Role")
BOSS = ApiKey("bosss", Role.ADMIN, "boss")
BEHIND = Access(trusted_proxies=(PROXY,), sign_in=SIGN_IN, api_keys=(BOSS,))
ANN, OPERATES, MANAGES = "X-Forwarded-User: ann", "X-Forwarded-Role: operate", "x-forwarded-role: admin"


async def sent(rig: RelayRig, request: bytes, source: str) -> Message:
    client = await rig.client(source=source)
    await client.send(request)
    answered = await client.message()
    client.hang_up()
    return answered


async def managed(rig: RelayRig, *fields: str, target: str = "/hotseat/queue", method: str = "GET") -> Message:
    """What hotseat's own API gets."""
    client = await rig.send(get(target, *fields, method=method))
    call = await rig.management.call()
    await call.say(HELLO)
    await client.message()
    return call.request


async def test_a_user_uses_a_model(open_rig: OpenRig) -> None:
    """The model server does not learn who it is; the activity and the queue name the user, not the proxy."""
    rig = await open_rig(access=BEHIND)
    client, call = await rig.reached(chat("alpha", ANN, OPERATES, "X-Mine: stays"))
    [in_progress] = rig.relay.connections.in_progress()
    await call.say(HELLO)

    assert (await client.message()).status == 200
    assert in_progress.client == "user:ann"
    assert call.request["x-mine"] == "stays"
    assert call.request.all("x-forwarded-user") + call.request.all("x-forwarded-role") == []


async def test_nobody_else_is_believed(open_rig: OpenRig) -> None:
    """Whoever does not come from the proxy needs a key, even if they send the same bytes as the proxy before."""
    rig = await open_rig(access=BEHIND)
    request = chat("alpha", ANN, MANAGES)
    answers = [(await rig.exchange(request))[1] for _ in range(2)]
    answers += [await sent(rig, request, ELSEWHERE) for _ in range(2)]
    answers.append((await rig.exchange(request))[1])

    assert [answer.status for answer in answers] == [200, 200, 401, 401, 200]


async def test_the_headers_of_others_reach_nobody(open_rig: OpenRig) -> None:
    """A model server behind hotseat may believe them too."""
    rig = await open_rig(access=BEHIND)
    client = await rig.client(source=ELSEWHERE)
    await client.send(chat("alpha", ANN, MANAGES, "x-api-key: bosss"))
    call = await rig.alpha.call()
    await call.say(HELLO)
    await client.message()

    assert call.request.all("x-forwarded-user") + call.request.all("x-forwarded-role") == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([ANN], 403),
        ([ANN, "X-Forwarded-Role: inference"], 403),
        ([ANN, "X-Forwarded-Role:"], 403),
        ([ANN, "X-Forwarded-Role: root"], 403),
        ([ANN, "X-Forwarded-Role: ADMIN"], 403),
        ([ANN, OPERATES, MANAGES], 401),
        ([ANN, "x-forwarded-user: bob", MANAGES], 401),
        (["X-Forwarded-User:", MANAGES], 401),
        (["X-Forwarded-User:  ", MANAGES], 401),
        ([f"X-Forwarded-User: {'x' * (LONGEST_USER + 1)}", MANAGES], 401),
        ([MANAGES], 401),
    ],
)
async def test_what_gives_no_role(open_rig: OpenRig, fields: list[str], status: int) -> None:
    """The least role counts if none is stated; an unknown one, two of them, or a role without a user give nothing."""
    rig = await open_rig(access=BEHIND)

    assert (await rig.refusal(get("/hotseat/queue", *fields))).status == status


async def test_a_role_gives_what_it_gives_to_a_key(open_rig: OpenRig) -> None:
    """The API learns the name of the user, and no client can state it instead."""
    rig = await open_rig(access=BEHIND)
    request = await managed(rig, "X-Forwarded-User: j\xf6rg m", OPERATES, "Hotseat-User: eve")
    refused = await rig.refusal(get("/hotseat/restart", ANN, OPERATES, method="POST"))

    assert request.all("hotseat-user") == ["j%F6rg%20m"]
    assert refused.status == 403


async def test_a_key_counts_more(open_rig: OpenRig) -> None:
    """A client of the proxy with a key has its rights, and the API sees the key."""
    rig = await open_rig(access=BEHIND)
    request = await managed(rig, ANN, "x-api-key: bosss", target="/hotseat/restart", method="POST")

    assert request.all("hotseat-user") == []
    assert len(request.all("hotseat-key")) == 1


async def test_without_a_header_for_roles(open_rig: OpenRig) -> None:
    """Every user has the role inference, whatever else the proxy sends."""
    access = Access(trusted_proxies=(PROXY,), sign_in=SignIn("X-Forwarded-User"))
    rig = await open_rig(access=access)
    refused = await rig.refusal(get("/hotseat/queue", ANN, MANAGES))
    _, answered = await rig.exchange(chat("alpha", ANN, MANAGES))

    assert (refused.status, answered.status) == (403, 200)


async def test_the_audit_names_the_user(open_rig: OpenRig) -> None:
    """Also of what was refused; a user cannot pose as a key."""
    rig = await open_rig(access=BEHIND)
    await managed(rig, ANN, OPERATES, target="/upstream/alpha", method="DELETE")
    await rig.refusal(get("/hotseat/queue", ANN))
    await rig.refusal(get("/hotseat/queue", ANN, "X-Forwarded-Role: root"))
    files = (rig.audit, rig.audit.with_name(UNPRIVILEGED))
    entries = [json.loads(line) for file in files for line in file.read_text().splitlines()]

    assert [(each["event"], each.get("user"), each.get("key")) for each in entries] == [
        ("begin", "ann", None),
        ("end", "ann", None),
        ("refused", "ann", None),
        ("refused", None, None),
    ]


async def test_a_reload_without_sign_in(open_rig: OpenRig) -> None:
    """What users have in progress ends, like the requests of a removed key."""
    rig = await open_rig(access=BEHIND)
    client, _ = await rig.reached(chat("alpha", ANN))
    rig.relay.change_policy(Policy(Settings(access=Access(api_keys=(BOSS,)))))

    assert (await client.message()).status == 401


async def test_a_reload_that_no_longer_trusts_the_proxy(open_rig: OpenRig) -> None:
    """What users behind it have in progress ends, also if it is half read; users behind another proxy continue."""
    rig = await open_rig(access=replace(BEHIND, trusted_proxies=(PROXY, ELSEWHERE)))
    client, _ = await rig.reached(chat("alpha", ANN))
    half = await rig.send(chat("alpha", ANN)[:-1])
    other = await rig.client(source=ELSEWHERE)
    await other.send(chat("alpha", ANN))
    call = await rig.alpha.call()
    await come_true(lambda: rig.relay.context.bodies.in_memory)
    policy = Policy(Settings(access=replace(BEHIND, trusted_proxies=(ELSEWHERE,))))
    rig.relay.change_policy(policy)
    await call.say(HELLO)

    assert [(await each.message()).status for each in (client, half, other)] == [401, 401, 200]
