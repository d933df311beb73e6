"""Proofs between hosts, through a running relay."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from tests.relay.exchange.test_fleet_hops import FLEET_MODELS, ScriptedHosts, at
from tests.support.host_headers import SECRET, passed_on
from tests.support.relay_rig import HELLO, chat, get
from tests.support.scripted_upstream import on_a_port

from hotseat.fleet.host_headers import said_by
from hotseat.fleet.proofs import FleetSecret, ProofChecker, Signer
from hotseat.fleet.route import THIS_HOST
from hotseat.identifiers import HostName
from hotseat.relay.access.host_requests import HostVerifier
from hotseat.settings import Access, ApiKey, Fleet, Role, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import ScriptedUpstream
    from tests.support.transport import Message

    from hotseat.fleet.route import Route

KEYS = (ApiKey("ours", Role.ADMIN, name=" the boss "), ApiKey("chat", Role.INFERENCE, name="ann"))
UNPROVEN = (
    b"HTTP/1.1 403 x\r\nHotseat-Not-Served: unproven\r\nX-Error-Message: clocks differ\r\nContent-Length: 4\r\n\r\nnone"
)


@pytest.fixture
async def box() -> AsyncIterator[ScriptedUpstream]:
    """Another host."""
    async with AsyncExitStack() as stack:
        server = on_a_port()
        stack.push_async_callback(server.aclose)
        yield server


async def joined(open_rig: OpenRig, *choices: Route, keys: tuple[ApiKey, ...] = ()) -> tuple[RelayRig, ScriptedHosts]:
    fleet = Fleet(("nats://x",), HostName("here"), secrets=(SECRET,))
    rig = await open_rig(settings=Settings(fleet=fleet, access=Access(api_keys=keys)), fleet_models=FLEET_MODELS)
    rig.relay.context.hosts = hosts = ScriptedHosts(list(choices))  # type: ignore[assignment]
    return rig, hosts


def prove(request: Message, us: ProofChecker) -> None:
    """Raises unless the receiving host accepts the proof."""
    method, target, _ = request.first_line.split()
    fields = [request[name] for name in ("hotseat-model", "hotseat-client", "hotseat-role")]
    said = said_by(*(part.encode() for part in (request["hotseat-from"], method, target, *fields)))
    us.check("here", said, request["hotseat-proof"].encode())


def test_a_proof_of_another_fleet_is_rejected() -> None:
    """Both have the same secret, and differ only in their prefix."""
    us = Fleet(("nats://x",), HostName("b"), secrets=(SECRET,), prefix="staging")
    verifier = HostVerifier(us)
    ours, theirs = (Signer(FleetSecret([SECRET], prefix)).proof(us.name, b"said") for prefix in ("staging", "hotseat"))

    assert verifier.is_proven_again(b"said", ours)
    assert not verifier.is_proven_again(b"said", theirs)


# To another host


@pytest.mark.parametrize(
    ("keys", "key", "role"), [((), "upstreams-own", "operate"), (KEYS, "chat", "inference"), (KEYS, "ours", "operate")]
)
async def test_what_is_passed_on_proves_itself(
    open_rig: OpenRig, box: ScriptedUpstream, keys: tuple[ApiKey, ...], key: str, role: str
) -> None:
    """Each forwarded request has its own proof, the caller's role, never admin, and not the secret."""
    rig, _ = await joined(open_rig, *[at("b", box)] * 3, keys=keys)
    there, client = ProofChecker(HostName("b"), FleetSecret([SECRET])), await rig.client()
    for _ in range(3):
        await client.send(chat("far", f"Authorization: Bearer {key}"))
        call = await box.call()
        await call.say(HELLO)
        await client.message()

        prove(call.request, there)
        assert call.request["hotseat-role"] == role
        assert SECRET not in str(call.request)


async def test_a_host_that_does_not_believe_us_turned_the_request_away(
    open_rig: OpenRig, box: ScriptedUpstream
) -> None:
    """If a host rejects the proof, another host serves the client, and the reason is recorded."""
    rig, hosts = await joined(open_rig, at("b", box), THIS_HOST)
    client = await rig.send(chat("alpha"))
    await (await box.call()).say(UNPROVEN)
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message()).body == b"hello"
    assert hosts.turned_away_by == ["b"]
    assert hosts.disbelieved_by == ["b: clocks differ"]


# From another host


async def test_requests_with_the_same_head_are_each_proven(open_rig: OpenRig) -> None:
    """Three requests with equal heads and different proofs are all accepted."""
    rig, _ = await joined(open_rig)
    client = await rig.client()
    for _ in range(3):
        await client.send(chat("alpha", *passed_on()))
        await (await rig.alpha.call()).say(HELLO)

        assert (await client.message()).status == 200


@pytest.mark.parametrize("times", [1, 2])
async def test_the_same_bytes_are_not_taken_twice(open_rig: OpenRig, times: int) -> None:
    """A replayed request gets 403, on the same connection and on a new one."""
    rig, _ = await joined(open_rig)
    client = await rig.client()
    recorded = [chat("alpha", *passed_on(), "X-Request-Id: same") for _ in range(times)]
    for request in recorded:
        await client.send(request)
        await (await rig.alpha.call()).say(HELLO)
        await client.message()
    await client.send(recorded[-1])
    again = await client.message()

    assert (again.status, again["hotseat-not-served"]) == (403, "unproven")
    assert (await rig.refusal(recorded[-1])).status == 403


FORGED = {
    "no proof": lambda: passed_on()[:-1],
    "an empty proof": lambda: (*passed_on()[:-1], "hotseat-proof: "),
    "another secret": lambda: passed_on(secrets=("guessed",)),
    "for another host": lambda: passed_on(to="another"),
    "for another path": lambda: passed_on(target="/v1/embeddings"),
    "for another method": lambda: passed_on(method="GET"),
    "for another client": lambda: (*passed_on()[:-1], passed_on(client="bob")[-1]),
    "for another model": lambda: (*passed_on()[:-1], passed_on("beta")[-1]),
    "for another role": lambda: (*passed_on()[:-1], passed_on(role="operate")[-1]),
    "for another sender": lambda: (*passed_on()[:-1], passed_on(sender="b")[-1]),
    "of another time": lambda: passed_on(clock=lambda: 1_700_000_000.0),
}


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("is_known", [False, True])
async def test_a_proof_is_for_one_request_alone(open_rig: OpenRig, forged: str, is_known: bool) -> None:
    """A proof for another sender, receiver, path, model, client, role or time gets 403, cached head or not."""
    rig, _ = await joined(open_rig)
    if is_known:
        await rig.exchange(chat("alpha", *passed_on()))
    answered = await rig.refusal(chat("alpha", *FORGED[forged]()))

    assert (answered.status, answered["hotseat-not-served"]) == (403, "unproven")
    assert answered["x-error-code"] == "host_unproven"


async def test_two_proofs_are_refused(open_rig: OpenRig) -> None:
    """A request with two proofs gets 400."""
    rig, _ = await joined(open_rig)

    assert (await rig.refusal(chat("alpha", *passed_on(), passed_on()[-1]))).status == 400


@pytest.mark.parametrize(
    ("role", "method", "target", "status"),
    [
        ("inference", "GET", "/hotseat/config", 403),
        ("operate", "GET", "/hotseat/config", 200),
        ("admin", "GET", "/hotseat/config", 403),
        ("", "GET", "/hotseat/config", 403),
        ("operate", "POST", "/hotseat/anything", 403),
        ("admin", "POST", "/hotseat/anything", 403),
    ],
)
@pytest.mark.parametrize("keys", [(), KEYS])
async def test_a_host_may_do_what_the_caller_may_and_never_more_than_operate(
    open_rig: OpenRig, keys: tuple[ApiKey, ...], role: str, method: str, target: str, status: int
) -> None:
    """A forwarded request has the caller's rights up to operate; admin and unknown roles get 403."""
    rig, _ = await joined(open_rig, keys=keys)
    asked = get(target, *passed_on(None, target, method=method, role=role), method=method)
    if status == 403:
        assert (await rig.refusal(asked)).status == 403
        return
    client = await rig.send(asked)
    await (await rig.management.call()).say(HELLO)

    assert (await client.message()).status == 200


RESTART = "/hotseat/restart"


async def test_a_host_restarts_this_one_for_an_administrator(open_rig: OpenRig) -> None:
    """For this path alone a host may state the role admin, and the API learns which host it was."""
    rig, _ = await joined(open_rig, keys=KEYS)
    client = await rig.send(get(RESTART, *passed_on(None, RESTART, role="admin"), method="POST"))
    call = await rig.management.call()
    await call.say(HELLO)

    assert (await client.message()).status == 200
    assert call.request.all("hotseat-from") == ["a"]


@pytest.mark.parametrize(
    ("role", "target"),
    [
        ("operate", RESTART),
        ("inference", RESTART),
        ("admin", f"{RESTART}?x"),
        ("admin", "/hotseat/restar%74"),
        ("admin", "/hotseat/fleet/hosts/b/restart"),
    ],
)
async def test_a_host_restarts_for_nobody_else(open_rig: OpenRig, role: str, target: str) -> None:
    """A lower role is refused, and so are other spellings and the restart of a third host."""
    rig, _ = await joined(open_rig, keys=KEYS)

    assert (await rig.refusal(get(target, *passed_on(None, target, role=role), method="POST"))).status == 403


async def test_a_client_that_says_that_it_is_a_host(open_rig: OpenRig) -> None:
    """In a fleet it is refused before the API sees it."""
    rig, _ = await joined(open_rig)

    assert (await rig.refusal(get(RESTART, "Hotseat-From: a", method="POST"))).status == 403


async def test_a_client_that_says_so_to_a_host_that_is_in_no_fleet(open_rig: OpenRig) -> None:
    """The API never sees what it said, so it is a client there."""
    rig = await open_rig()
    client = await rig.send(get(RESTART, "Hotseat-From: a", method="POST"))
    call = await rig.management.call()
    await call.say(HELLO)
    await client.message()

    assert call.request.all("hotseat-from") == []


async def test_a_model_path_is_judged_by_the_callers_role(open_rig: OpenRig) -> None:
    """A forwarded request to /slots needs a caller with the role operate."""
    rig, _ = await joined(open_rig, keys=KEYS)
    refused = await rig.refusal(get("/slots", *passed_on("alpha", "/slots", method="GET")))
    client = await rig.send(get("/slots", *passed_on("alpha", "/slots", method="GET", role="operate")))
    await (await rig.alpha.call()).say(HELLO)

    assert refused.status == 403
    assert (await client.message()).status == 200


async def test_one_warning_names_whoever_is_not_believed(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """Three invalid proofs cause one warning, which names the sender and fleet.secret."""
    rig, _ = await joined(open_rig)
    for _ in range(3):
        await rig.refusal(chat("alpha", *passed_on(sender="gpu9", secrets=("another",))))
    warnings = [record.getMessage() for record in caplog.records if record.name == "hotseat.relay.access.host_requests"]

    assert len(warnings) == 1
    assert "gpu9" in warnings[0]
    assert "fleet.secret" in warnings[0]


async def test_an_action_is_passed_on_with_the_name_of_its_key(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """So the other host counts it, and writes it to its audit, whatever the client says of itself."""
    fleet = Fleet(("nats://x",), HostName("here"), secrets=(SECRET,))
    access = Access(api_keys=KEYS, client_header="X-User")
    rig = await open_rig(settings=Settings(fleet=fleet, access=access), fleet_models=FLEET_MODELS)
    rig.relay.context.hosts = ScriptedHosts([at("b", box)] * 2)  # type: ignore[assignment]
    us, fields, clients = (
        ProofChecker(HostName("b"), FleetSecret([SECRET])),
        ("x-api-key: ours", "X-User: somebody"),
        [],
    )
    for request in (get("/slots/0?model=far", *fields, method="POST"), chat("far", *fields)):
        client = await rig.send(request)
        call = await box.call()
        prove(call.request, us)
        await call.say(HELLO)
        await client.message()
        clients.append(unquote(call.request["hotseat-client"]))

    assert clients == [" the boss ", " the boss "]
