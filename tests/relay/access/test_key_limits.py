"""Limits of keys: they apply to every request, whether or not its head is cached."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.host_headers import passed_on
from tests.support.relay_rig import HELLO, chat, chunked, get, post, turns
from tests.support.waiting import come_true

from hotseat.activity.usage import HELD
from hotseat.identifiers import HostName
from hotseat.relay.access.policy import Policy
from hotseat.settings import WINDOWS, Access, ApiKey, Budget, Fleet, Role, Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

    from hotseat.activity.usage import Account

DAY = WINDOWS["day"]
BEARER = "Authorization: Bearer "
ANN = ApiKey("anns", Role.INFERENCE, "ann")


def account(rig: RelayRig) -> Account:
    return rig.relay.context.policy.accounts.all()[0]


async def test_a_rate_holds_for_heads_that_were_read_before(open_rig: OpenRig) -> None:
    """The third of three equal requests exceeds a rate of two and gets 429; clients do not wait for a new day."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", requests=Budget(2, DAY)),)))
    for _ in range(2):
        await rig.exchange(chat("alpha", BEARER + "k"))
    refused = await rig.refusal(chat("alpha", BEARER + "k"))

    assert (refused.status, refused["X-Error-Code"], refused["x-should-retry"]) == (429, "budget_exhausted", "false")
    assert refused.all("Retry-After") == []
    assert (refused["x-ratelimit-limit-requests"], refused["x-ratelimit-remaining-requests"]) == ("2", "0")
    assert account(rig).requests == 2


async def test_what_is_left_of_a_budget_is_in_every_answer(open_rig: OpenRig) -> None:
    """Clients slow down before they are refused."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", requests=Budget(5, DAY), tokens=Budget(100, DAY)),)))
    answers = [(await rig.exchange(chat("alpha", BEARER + "k")))[1] for _ in range(2)]

    assert [answer["x-ratelimit-remaining-requests"] for answer in answers] == ["4", "3"]
    assert answers[0]["x-ratelimit-limit-tokens"] == "100"
    assert answers[0]["x-ratelimit-reset-tokens"].endswith("s")


async def test_tokens_of_answers_are_spent(open_rig: OpenRig) -> None:
    """The request after the one that exceeds the budget is refused."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", tokens=Budget(10, DAY)),)))
    client, call = await rig.reached(chat("alpha", BEARER + "k"))
    await call.say(post_with_usage(8, 5))
    answered = await client.message()
    refused = await rig.refusal(chat("alpha", BEARER + "k"))

    assert (answered.status, refused.status) == (200, 429)
    assert refused["X-Error-Message"] == "this API key is limited to 10 tokens per day"


async def test_whoever_leaves_before_the_tokens_are_reported_has_spent_them(open_rig: OpenRig) -> None:
    """A client that disconnects before the last event of each stream meets its budget all the same."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", tokens=Budget(10, DAY)),)))
    client, call = await rig.reached(chat("alpha", BEARER + "k"))
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    await call.say(b"54\r\n" + b'data: {"x":1}\n' * 6 + b"\r\n")
    await client.read_until(b"1}\n\r\n")
    client.hang_up()
    await come_true(lambda: rig.activity.entries)

    assert (await rig.refusal(chat("alpha", BEARER + "k"))).status == 429


async def test_a_response_that_must_be_counted_is_not_compressed(open_rig: OpenRig) -> None:
    """Its tokens could not be read. Keys without a budget of tokens may ask for compression."""
    keys = ApiKey("k", tokens=Budget(10, DAY)), ApiKey("other", requests=Budget(10, DAY))
    rig = await open_rig(access=Access(api_keys=keys))
    asked = [(await rig.exchange(chat("alpha", BEARER + key, "Accept-Encoding: gzip")))[0] for key in ("k", "other")]

    assert [each.all("accept-encoding") for each in asked] == [[], ["gzip"]]


def post_with_usage(prompt: int, completion: int) -> bytes:
    body = b'{"usage": {"prompt_tokens": %d, "completion_tokens": %d}}' % (prompt, completion)
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_a_connection_that_repeats_itself_is_held_to_the_rate(open_rig: OpenRig) -> None:
    """The rate also applies to equal requests on one connection."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", requests=Budget(2, DAY)),)))
    client = await rig.client()
    for _ in range(2):
        await client.send(chat("alpha", BEARER + "k"))
        await (await rig.alpha.call()).say(HELLO)
        await client.message()
    await client.send(chat("alpha", BEARER + "k"))

    assert (await client.message()).status == 429


async def test_only_so_many_at_a_time(open_rig: OpenRig) -> None:
    """A request beyond the concurrency limit gets 429; a disconnect frees a place, and other keys are not affected."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", concurrency=1), ApiKey("other"))))
    served, _ = await rig.reached(chat("alpha", BEARER + "k"))
    refused = await rig.refusal(chat("alpha", BEARER + "k"))
    _, others = await rig.exchange(chat("alpha", BEARER + "other"))
    served.hang_up()
    await come_true(lambda: account(rig).in_flight == 0)
    _, again = await rig.exchange(chat("alpha", BEARER + "k"))

    assert [refused.status, others.status, again.status] == [429, 200, 200]
    assert account(rig).refused == 1


async def test_who_waits_counts(open_rig: OpenRig) -> None:
    """A waiting request counts towards the concurrency limit until its client disconnects."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", concurrency=1),)))
    waiting = await rig.send(chat("slow", BEARER + "k"))
    await come_true(lambda: rig.waiting() == 1)
    refused = await rig.refusal(chat("slow", BEARER + "k"))
    waiting.hang_up()
    await come_true(lambda: rig.waiting() == 0)
    rig.launcher.become_ready("slow")

    assert refused.status == 429
    assert account(rig).in_flight == 0


LARGE = post(b'{"model":"alpha","prompt":"%b"}' % (b"a" * 100_000), BEARER + "k", "Content-Type: application/json")
KNOWN = pytest.mark.parametrize("is_known", [False, True], ids=["new head", "head that was read before"])


async def rig_with_one_place(open_rig: OpenRig, is_known: bool) -> RelayRig:
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", concurrency=1), ApiKey("other"))))
    if is_known:
        await rig.exchange(LARGE)
    return rig


async def unfinished(rig: RelayRig, request: bytes = LARGE) -> Wire:
    client = await rig.send(request[:-1])
    await come_true(lambda: rig.relay.context.bodies.in_memory > len(request) - 1000)
    return client


@KNOWN
async def test_an_upload_takes_its_place_at_its_head(open_rig: OpenRig, is_known: bool) -> None:
    """A second upload gets 429 after its head, and the first one is served when its body is complete."""
    rig = await rig_with_one_place(open_rig, is_known)
    first = await unfinished(rig)
    second = await rig.send(LARGE[: LARGE.index(b"\r\n\r\n") + 4])
    refused = await second.message()
    during = account(rig).in_flight
    await first.send(LARGE[-1:])
    await (await rig.alpha.call()).say(HELLO)

    assert (refused.status, refused["X-Error-Code"], during) == (429, "rate_limit_exceeded", 1)
    assert (await first.message()).status == 200
    assert account(rig).in_flight == 0


@KNOWN
async def test_an_upload_that_is_broken_off_gives_its_place_back(open_rig: OpenRig, is_known: bool) -> None:
    """A client that disconnects during its upload frees the place."""
    rig = await rig_with_one_place(open_rig, is_known)
    for _ in range(3):
        client = await unfinished(rig)
        client.hang_up()
        await come_true(lambda: account(rig).in_flight == 0)
    _, answered = await rig.exchange(LARGE)

    assert answered.status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"model":"nobody","x":"%b"}', 404), (b'{"x":"%b"', 400), (b'{"model":"beta","x":"%b"}', 403)],
    ids=["unknown model", "bad JSON", "another model"],
)
async def test_an_upload_that_is_refused_gives_its_place_back(open_rig: OpenRig, body: bytes, status: int) -> None:
    """An upload that is refused after its body was read frees the place."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", concurrency=1, models=("alpha", "nobody")),)))
    for _ in range(3):
        refused = await rig.refusal(post(body % (b"a" * 50_000), BEARER + "k"))

        assert refused.status == status
    assert account(rig).in_flight == 0


async def test_an_upload_that_is_too_slow_gives_its_place_back(open_rig: OpenRig) -> None:
    """An upload that exceeds the idle timeout gets 408 and frees the place."""
    rig = await rig_with_one_place(open_rig, is_known=False)
    client = await unfinished(rig)
    await rig.later(61)
    await rig.clocks_seen()

    assert (await client.message()).status == 408
    assert account(rig).in_flight == 0


async def half_taken(rig: RelayRig, requests: bytes) -> tuple[Wire, Call]:
    """A client that reads nothing, and the call that it waits for: a part of the answer is in hotseat's own buffer."""
    client = await rig.client(receive_buffer=4096)
    await client.send(requests)
    call = await rig.alpha.call()
    connection = rig.connection().transport
    connection.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    await call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while connection.get_write_buffer_size() < 20_000:  # the kernel still takes some
        await call.say(chunked(b"x" * 4096).removesuffix(chunked()))
        await turns()
    return client, call


async def test_an_upload_gives_its_place_back_though_its_client_did_not_read(open_rig: OpenRig) -> None:
    """A disconnected client frees its place, even if an earlier response cannot be delivered."""
    rig = await rig_with_one_place(open_rig, is_known=False)
    client, call = await half_taken(rig, chat("alpha", BEARER + "k"))
    await call.say(chunked())
    await come_true(lambda: account(rig).in_flight == 0)
    await client.send(LARGE[:-1])
    await come_true(lambda: account(rig).in_flight == 1)
    client.say_goodbye()

    await come_true(lambda: account(rig).in_flight == 0)
    assert rig.relay.context.bodies.in_memory == 0


async def test_an_answer_that_is_cut_gives_its_place_back(open_rig: OpenRig) -> None:
    """When a response is cut, its place is free even if the client does not read; what waits behind it had none."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", concurrency=2),)))
    _, call = await half_taken(rig, chat("alpha", BEARER + "k") + LARGE)
    during = account(rig).in_flight
    call.hang_up()

    await come_true(lambda: account(rig).in_flight == 0)
    assert during == 1
    assert len(rig.relay.connections.open) == 1


async def test_an_upload_behind_a_request_takes_its_place_in_its_turn(open_rig: OpenRig) -> None:
    """A pipelined upload takes a place after the response before it, and frees it when the client disconnects."""
    rig = await rig_with_one_place(open_rig, is_known=False)
    behind = post(b"a" * 20_000, BEARER + "k")[:-1]
    client, call = await rig.reached(chat("alpha", BEARER + "other") + behind)
    before = account(rig).in_flight
    await call.say(HELLO)
    await come_true(lambda: account(rig).in_flight == 1)
    client.hang_up()

    assert before == 0
    await come_true(lambda: account(rig).in_flight == 0)


async def test_two_pipelined_requests_take_the_only_place_one_after_the_other(open_rig: OpenRig) -> None:
    """An upload that arrives behind a request, in the same read, takes the place when that is free again."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", concurrency=1),)))
    upload = get("/v1/chat/completions", BEARER + "k", "Transfer-Encoding: chunked", method="POST")
    content = b'{"model":"alpha","x":"%b"}' % (b"x" * 50_000)
    client = await rig.send(chat("alpha", BEARER + "k") + upload + chunked(content))
    for _ in range(2):
        await (await rig.alpha.call()).say(HELLO)
    statuses = [(await client.message()).status, (await client.message()).status]

    assert statuses == [200, 200]


async def test_a_key_for_one_model_opens_no_other(open_rig: OpenRig) -> None:
    """A key for one model gets 403 for another one, wherever it is named, and nothing is started."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", Role.OPERATE, models=("alpha",)),)))
    foreign = [
        chat("beta", BEARER + "k"),
        get("/upstream/beta/slots", BEARER + "k"),
        get("/slots?model=beta", BEARER + "k"),
        get("/upstream/beta/load", BEARER + "k"),
        get("/upstream/beta", BEARER + "k", method="DELETE"),
    ]
    refusals = [await rig.refusal(request) for request in foreign]
    _, allowed = await rig.exchange(chat("alpha", BEARER + "k"))

    assert {refusal.status for refusal in refusals} == {403}
    assert all(b"this API key may not use" in refusal.body for refusal in refusals)
    assert rig.upstreams["beta"].lines == rig.management.lines == []
    assert allowed.status == 200


async def test_use_is_counted_by_key(open_rig: OpenRig) -> None:
    """A key's device time runs from the lease to the last byte."""
    rig = await open_rig(access=Access(api_keys=(ANN,)))
    began = rig.relay.context.now()
    client, call = await rig.reached(chat("alpha", BEARER + "anns"))
    reached = rig.relay.context.now()
    await come_true(lambda: rig.relay.context.now() > reached + 0.05)
    await call.say(HELLO)
    await client.message()

    assert (account(rig).name, account(rig).requests, account(rig).in_flight) == ("ann", 1, 0)
    assert 0.05 <= account(rig).device_s <= rig.relay.context.now() - began


async def test_a_reload_keeps_what_was_counted(open_rig: OpenRig) -> None:
    """After a reload with a new rate, the key keeps its counters and the new rate applies."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k"),)))
    await rig.exchange(chat("alpha", BEARER + "k"))
    settings = Settings(access=Access(api_keys=(ApiKey("k", requests=Budget(1, DAY)),)))
    rig.relay.context.policy = Policy(settings, rig.relay.context.policy.accounts)
    _, second = await rig.exchange(chat("alpha", BEARER + "k"))
    third = await rig.refusal(chat("alpha", BEARER + "k"))

    assert [second.status, third.status] == [200, 429]
    assert account(rig).requests == 2


async def test_our_own_api_gets_the_digest_of_the_key(open_rig: OpenRig) -> None:
    """The API gets the digest of the key, not what the client claims; a model server gets neither."""
    rig = await open_rig(access=Access(api_keys=(ANN,)))
    said = [BEARER + "anns", "Hotseat-Key: somebody else"]
    client = await rig.send(get("/v1/models", *said))
    to_us = await rig.management.call()
    await to_us.say(HELLO)
    await client.message()
    _, to_model = await rig.reached(chat("alpha", *said))

    assert to_us.request.all(HELD) == [account(rig).digest.hex()]
    assert to_model.request.all(HELD) == []


async def test_without_keys_nothing_is_counted(rig: RelayRig) -> None:
    """Without configured keys there are no accounts."""
    await rig.exchange(chat("alpha", BEARER + "anything"))

    assert rig.relay.context.policy.accounts.all() == []


# Who did what


async def test_an_action_is_written_down_once(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """An action is one audit line with key, address, method, path and status, whatever the log level."""
    caplog.set_level(logging.WARNING)
    caplog.handler.setLevel(logging.NOTSET)
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", Role.OPERATE, "ann"),)))
    client = await rig.send(get("/upstream/alpha?force=true&key=hush", BEARER + "k", method="DELETE"))
    await (await rig.management.call()).say(HELLO)
    await client.message()
    looked = await rig.send(get("/hotseat/queue", BEARER + "k"))
    await (await rig.management.call()).say(HELLO)
    await looked.message()

    written = [record.getMessage() for record in caplog.records if record.name == "hotseat.audit"]
    assert written == [
        'audit actor=key:"ann" address=127.0.0.1 action="DELETE /upstream/alpha" status=200 request=box-7'
    ]


async def test_an_action_without_keys_is_written_down_too(rig: RelayRig, caplog: pytest.LogCaptureFixture) -> None:
    """Without keys, the audit line has actor=anonymous and the address."""
    client = await rig.send(get("/upstream/alpha/load"))
    await (await rig.management.call()).say(HELLO)
    await client.message()

    expected = 'audit actor=anonymous address=127.0.0.1 action="GET /upstream/alpha/load" status=200 request=box-7'
    assert expected in caplog.text


def audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "hotseat.audit"]


async def test_of_two_keys_the_one_that_let_the_request_in_is_named(
    open_rig: OpenRig, caplog: pytest.LogCaptureFixture
) -> None:
    """If a request carries two keys, the audit line names the one with the higher role."""
    caplog.handler.setLevel(logging.NOTSET)
    keys = (ANN, ApiKey("roots", Role.ADMIN, "root"))
    rig = await open_rig(access=Access(api_keys=keys))
    for said in ([BEARER + "anns", "x-api-key: roots"], [BEARER + "roots", "x-api-key: anns"]):
        client = await rig.send(get("/upstream/alpha/load", *said))
        await (await rig.management.call()).say(HELLO)
        await client.message()

    assert [line.split(" address=")[0] for line in audited(caplog)] == ['audit actor=key:"root"'] * 2


async def test_no_name_of_a_key_looks_like_a_host(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """Audit lines quote names and mark them as key or host, even if a name contains quotes."""
    caplog.handler.setLevel(logging.NOTSET)
    fleet = Fleet(("nats://x",), HostName("here"), secrets=("between-us-hosts",))
    keys = (ApiKey("one", Role.ADMIN, "host gpu1"), ApiKey("two", Role.ADMIN, '" address=host:"gpu1'))
    rig = await open_rig(settings=Settings(fleet=fleet, access=Access(api_keys=keys)))
    path, secrets = "/upstream/alpha/load", ("between-us-hosts",)
    from_host = passed_on(None, path, method="GET", sender="gpu1", client="ci' \"x", role="operate", secrets=secrets)
    for said in ([BEARER + "one"], [BEARER + "two"], from_host):
        client = await rig.send(get(path, *said))
        await (await rig.management.call()).say(HELLO)
        await client.message()
    by_name, by_quote, by_host = audited(caplog)

    assert by_name.startswith('audit actor=key:"host gpu1" address=127.0.0.1 ')
    assert by_quote.startswith('audit actor=key:"\\" address=host:\\"gpu1" address=127.0.0.1 ')
    assert by_host.startswith('audit actor=host:"gpu1" address=127.0.0.1 ')
    assert by_host.endswith(' client="ci\' \\"x"')


async def test_a_batch_key_and_a_person_wait_for_one_slot(open_rig: OpenRig) -> None:
    """The person is served first, though the batch came first."""
    keys = (ApiKey("batch", name="batch", is_batch=True), ApiKey("person"))
    rig = await open_rig(access=Access(api_keys=keys), models=(spec("alpha", concurrency_limit=1),))
    first, call = await rig.reached(chat("alpha", BEARER + "person"))
    batch = await rig.send(chat("alpha", BEARER + "batch"))
    await come_true(lambda: len(rig.dispatcher.views.current().queue) == 1)
    person = await rig.send(chat("alpha", BEARER + "person"))
    await come_true(lambda: len(rig.dispatcher.views.current().queue) == 2)
    await call.say(HELLO)
    await first.message()
    await (await rig.alpha.call()).say(HELLO)

    assert (await person.message()).status == 200
    await (await rig.alpha.call()).say(HELLO)
    assert (await batch.message()).status == 200
