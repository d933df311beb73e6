"""The audit files: each action before it takes effect and at its end, and who was refused.

What needs no more than the role `inference`, and every refusal, is in a file of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.host_headers import passed_on
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.waiting import come_true

from hotseat.identifiers import HostName
from hotseat.relay.access.audit import Audit
from hotseat.relay.access.wrong_keys import MOST_WRONG
from hotseat.settings import WINDOWS, Access, ApiKey, Budget, Fleet, Role, Settings
from hotseat.state.audit_file import AUDIT, OLDER, UNPRIVILEGED, AuditFile

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

ANN, OPS = ApiKey("anns", Role.INFERENCE, "ann", models=("beta",)), ApiKey("opss", Role.OPERATE, "ops")
ONCE = ApiKey("once", Role.INFERENCE, "once", requests=Budget(1, WINDOWS["day"]))
KEYS = Access(api_keys=(ANN, OPS))
OF_ANN, OF_OPS = "Authorization: Bearer anns", "Authorization: Bearer opss"
UNLOAD = get("/upstream/alpha?force=true", OF_OPS, method="DELETE")


def unload_by_ollama(*fields: str) -> bytes:
    return post(b'{"model": "alpha", "keep_alive": 0}', *fields, target="/api/generate")


async def done(rig: RelayRig, request: bytes) -> None:
    client = await rig.send(request)
    await (await rig.management.call()).say(HELLO)
    await client.message()
    client.hang_up()


def entries(rig: RelayRig, name: str = AUDIT) -> list[dict[str, Any]]:
    """Without their times."""
    file = rig.audit.with_name(name)
    text = file.read_text() if file.exists() else ""
    return [{name: fact for name, fact in json.loads(line).items() if name != "time"} for line in text.splitlines()]


async def test_an_action_is_recorded_before_it_takes_effect(open_rig: OpenRig) -> None:
    """When the API gets the request, the first line is in the file; the second has the result."""
    rig = await open_rig(access=KEYS)
    client = await rig.send(UNLOAD)
    call = await rig.management.call()
    before = entries(rig)
    await call.say(HELLO)
    await client.message()
    action = {"address": "127.0.0.1", "key": "ops", "action": "DELETE /upstream/alpha", "request": "box-7"}

    assert before == [{"event": "begin", **action}]
    assert entries(rig) == [{"event": "begin", **action}, {"event": "end", **action, "status": 200}]


async def test_a_load_by_ollamas_api_is_an_action(open_rig: OpenRig) -> None:
    """Only the body tells it from inference, which is none."""
    rig = await open_rig(access=KEYS)
    client = await rig.send(post(b'{"model": "alpha"}', OF_OPS, target="/api/generate"))
    call = await rig.management.call()
    before = entries(rig, UNPRIVILEGED)
    await call.say(HELLO)
    await client.message()
    await rig.exchange(post(b'{"model": "alpha", "prompt": "hi", "stream": false}', OF_OPS, target="/api/generate"))
    await come_true(lambda: len(entries(rig, UNPRIVILEGED)) == 2)

    assert entries(rig) == []
    assert [(each["event"], each["action"]) for each in before] == [("begin", "POST /api/generate")]


async def test_what_no_action_is_leaves_no_line(open_rig: OpenRig) -> None:
    """Inference and reading are not recorded here."""
    rig = await open_rig(access=KEYS)
    await rig.exchange(chat("alpha", OF_OPS))

    assert entries(rig) == []


async def test_an_action_that_cannot_be_recorded_is_not_done(
    open_rig: OpenRig, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets 503 with the reason and reaches nobody; inference goes on, and the log has one line about the file."""
    rig = await open_rig(access=KEYS)
    rig.audit.mkdir()
    refused = [await rig.refusal(UNLOAD) for _ in range(2)]
    _, answered = await rig.exchange(chat("alpha", OF_OPS))

    assert [(each.status, each["X-Error-Code"]) for each in refused] == [(503, "not_audited")] * 2
    assert b"was not done, because the audit file cannot be written" in refused[0].body
    assert rig.management.lines == []
    assert answered.status == 200
    assert caplog.text.count("the audit file cannot be written") == 1


async def test_without_keys_an_action_needs_no_file(rig: RelayRig, caplog: pytest.LogCaptureFixture) -> None:
    """Everybody is anonymous, and a machine with a read-only disk must still work."""
    rig.audit.mkdir()
    client = await rig.send(get("/upstream/alpha/load"))
    await (await rig.management.call()).say(HELLO)

    assert (await client.message()).status == 200
    assert "the audit file cannot be written" in caplog.text


async def test_who_is_refused_is_recorded(open_rig: OpenRig) -> None:
    """A missing key, a wrong one, a role that is too low and a model that the key may not use: each with the key."""
    rig = await open_rig(access=KEYS)
    for request in (
        get("/v1/models"),
        get("/v1/models", "x-api-key: wrong"),
        get("/hotseat/queue", OF_ANN),
        chat("alpha", OF_ANN),
    ):
        await rig.refusal(request)
    about = {"event": "refused", "address": "127.0.0.1", "request": "box-7"}

    assert entries(rig) == []
    assert entries(rig, UNPRIVILEGED) == [
        {**about, "action": "GET /v1/models", "status": 401, "error": "invalid_api_key"},
        {**about, "action": "GET /v1/models", "status": 401, "error": "invalid_api_key"},
        {**about, "key": "ann", "action": "GET /hotseat/queue", "status": 403, "error": "forbidden"},
        {**about, "key": "ann", "action": "POST /v1/chat/completions", "status": 403, "error": "forbidden"},
    ]


async def test_other_errors_are_not_about_the_sender(open_rig: OpenRig) -> None:
    """A model that does not exist is no matter of rights."""
    rig = await open_rig(access=KEYS)
    await rig.refusal(chat("gamma", OF_OPS))

    assert entries(rig) == entries(rig, UNPRIVILEGED) == []


async def test_somebody_who_guesses_does_not_fill_the_disk(open_rig: OpenRig) -> None:
    """Of one address there are twenty lines in a minute, then one with the number of the others."""
    rig = await open_rig(access=KEYS)
    for _ in range(MOST_WRONG + 5):
        await rig.refusal(get("/v1/models", "x-api-key: wrong"))
    rig.relay.context.audit._of_anonymous.counts.end_minute()
    *each, rest = entries(rig, UNPRIVILEGED)

    assert len(each) == MOST_WRONG
    assert rest == {"event": "refused", "address": "127.0.0.1", "count": 5, "window_s": 60.0}


async def test_a_few_refusals_have_no_summary(open_rig: OpenRig) -> None:
    """Each of them has a line of its own."""
    rig = await open_rig(access=KEYS)
    await rig.refusal(get("/v1/models"))
    rig.relay.context.audit._of_anonymous.counts.end_minute()

    assert len(entries(rig, UNPRIVILEGED)) == 1


async def test_an_action_that_a_host_passed_on(open_rig: OpenRig) -> None:
    """The line names the host, and the holder of the key for whom it asks."""
    fleet = Fleet(("nats://x",), HostName("here"), secrets=("between-us-hosts",))
    rig = await open_rig(settings=Settings(fleet=fleet, access=KEYS))
    path, secrets = "/upstream/alpha/load", ("between-us-hosts",)
    lines = passed_on(None, path, method="GET", sender="gpu1", client="ops", role="operate", secrets=secrets)
    client = await rig.send(get(path, *lines))
    await (await rig.management.call()).say(HELLO)
    await client.message()

    assert [(each["event"], each["host"], each["client"]) for each in entries(rig)] == [
        ("begin", "gpu1", "ops"),
        ("end", "gpu1", "ops"),
    ]


async def test_a_client_that_leaves_before_the_end(open_rig: OpenRig) -> None:
    """The last line says so: the action may have taken effect."""
    rig = await open_rig(access=KEYS)
    client = await rig.send(UNLOAD)
    await rig.management.call()
    client.hang_up()
    await come_true(lambda: len(entries(rig)) == 2)

    assert entries(rig)[1]["status"] == 499


async def test_what_exceeds_a_limit_is_not_recorded(open_rig: OpenRig) -> None:
    """A key that has used up its budget leaves no lines, as nothing is done for it."""
    rig = await open_rig(access=Access(api_keys=(ONCE, OPS)))
    await done(rig, unload_by_ollama("x-api-key: once"))
    refused = await rig.refusal(unload_by_ollama("x-api-key: once"))

    assert refused.status == 429
    assert [each["event"] for each in entries(rig, UNPRIVILEGED)] == ["begin", "end"]


async def test_an_action_at_a_model_is_charged_before_it_is_recorded(open_rig: OpenRig) -> None:
    """An operator's key may have a budget too."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("opss", Role.OPERATE, "ops", requests=ONCE.requests),)))
    action = get("/slots/0?model=alpha", OF_OPS, method="POST")
    await rig.exchange(action)
    refused = await rig.refusal(action)

    assert refused.status == 429
    assert [each["event"] for each in entries(rig)] == ["begin", "end"]


async def test_a_load_of_a_model_that_the_key_may_not_use(open_rig: OpenRig) -> None:
    """It is a refusal, with one line, and those are limited."""
    rig = await open_rig(access=KEYS)
    for _ in range(MOST_WRONG + 5):
        await rig.refusal(unload_by_ollama(OF_ANN))

    assert entries(rig) == []
    assert [each["event"] for each in entries(rig, UNPRIVILEGED)] == ["refused"] * MOST_WRONG


@pytest.mark.parametrize("access", [KEYS, Access()], ids=["keys", "no keys"])
async def test_nobody_below_operate_pushes_out_an_operators_line(open_rig: OpenRig, access: Access) -> None:
    """Loads by Ollama's API and refusals fill files of their own, also if everybody is anonymous."""
    rig = await open_rig(access=access)
    context = rig.relay.context
    context.audit = Audit(AuditFile(rig.audit, largest=1000), context.now, context.later)
    await done(rig, UNLOAD)
    flood = (OLDER + 2) * 1000 // 150
    for number in range(flood):
        await done(rig, unload_by_ollama(OF_OPS, f"X-Request-Id: load-{number}"))
        if access.keys:
            await rig.refusal(get("/v1/models", "x-api-key: wrong"))

    assert [each["action"] for each in entries(rig)] == ["DELETE /upstream/alpha"] * 2
    assert "load-0" not in "".join(each.read_text() for each in rig.audit.parent.glob(f"{UNPRIVILEGED}*"))
    assert {each.stat().st_mode & 0o777 for each in rig.audit.parent.glob("audit*")} == {0o600}
