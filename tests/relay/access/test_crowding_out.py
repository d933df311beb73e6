"""Everything bounded that callers of different roles share: a lower role uses it up, and a higher one still has what it
needs. SECURITY.md has the same table.
"""

from __future__ import annotations

import json
import re
from inspect import getsource
from typing import TYPE_CHECKING

import pytest
from tests.support.llama import REPOSITORY
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.waiting import come_true

from hotseat.api.app import ROUTERS
from hotseat.relay.access.audit import MOST_LINES, Audit
from hotseat.relay.access.wrong_keys import MOST_WRONG
from hotseat.relay.downstream.limits import MOST_BEYOND, MOST_FEEDS, MOST_IN_MEMORY
from hotseat.relay.http.head_cache import MOST_KNOWN
from hotseat.relay.routing.paths import ONLY_LISTED
from hotseat.relay.upstream.pool import MOST_IDLE
from hotseat.settings import Access, ApiKey, Limits, Role
from hotseat.state.audit_file import OLDER, UNPRIVILEGED, AuditFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Wire

    Case = Callable[[OpenRig], Awaitable[None]]

LOW, OPS = "Authorization: Bearer lows", "Authorization: Bearer opss"
KEYS = Access(api_keys=(ApiKey("lows", Role.INFERENCE, "low"), ApiKey("opss", Role.OPERATE, "ops")))
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
QUEUE, HEALTH = get("/hotseat/queue", OPS), get("/health")
UNLOAD = get("/upstream/alpha", OPS, method="DELETE")
FEED = get("/models/sse", LOW)
CASES: dict[str, Case] = {}


def shared(name: str) -> Callable[[Case], Case]:
    """By the name that SECURITY.md has for it."""

    def added(case: Case) -> Case:
        CASES[name] = case
        return case

    return added


async def managed(rig: RelayRig, request: bytes, answer: bytes = HELLO) -> int:
    """The status of a request that hotseat's own API answers."""
    client = await rig.send(request)
    await (await rig.management.call()).say(answer)
    status = (await client.message()).status
    client.hang_up()
    return status


async def feed(rig: RelayRig, request: bytes = FEED) -> Wire:
    client = await rig.send(request)
    await (await rig.management.call()).say(EVENTS)
    await client.read_until(b"\r\n\r\n")
    return client


@pytest.mark.parametrize("name", [
    "lines of the audit", "lines about refusals", "connections", "connections of an address", "event feeds",
    "memory of bodies", "uploads on disk", "wrong keys of an address", "known heads", "idle connections to upstreams",
])  # fmt: skip
async def test_a_lower_role_takes_nothing_that_a_higher_one_needs(open_rig: OpenRig, name: str) -> None:
    """Whoever has a key with the role `inference`, or none, uses up what it can get."""
    await CASES[name](open_rig)


def test_the_documentation_has_the_same_table() -> None:
    """Whoever adds something bounded finds the rule there, and its test here or where the table says."""
    table = (REPOSITORY / "SECURITY.md").read_text().partition("| shared and bounded |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]

    assert sorted(name for name, *_, test in rows if test == "above") == sorted(CASES)
    assert all(re.fullmatch(r"above|none|`tests/.+::test_.+`", test) for *_, test in rows)


@shared("lines of the audit")
async def _audit(open_rig: OpenRig) -> None:
    rig = await open_rig(access=KEYS)
    context = rig.relay.context
    context.audit = Audit(AuditFile(rig.audit, largest=1000), context.now, context.later)
    await managed(rig, UNLOAD)
    load = post(b'{"model": "alpha", "keep_alive": 0}', LOW, target="/api/generate")
    for _ in range((OLDER + 2) * 1000 // 150):
        await managed(rig, load)

    assert rig.audit.read_text().count("DELETE /upstream/alpha") == 2


@shared("lines about refusals")
async def _refusals(open_rig: OpenRig) -> None:
    rig = await open_rig(access=KEYS)
    for number in range(MOST_LINES + 1):
        client = await rig.client(source=f"127.0.0.{10 + number // MOST_WRONG}")
        await client.send(get("/hotseat/queue", "Connection: close"))
        await client.message()
        client.hang_up()
    await rig.refusal(get("/hotseat/queue", LOW))
    lines = [json.loads(line) for line in rig.audit.with_name(UNPRIVILEGED).read_text().splitlines()]

    assert [each.get("key") for each in lines] == [None] * MOST_LINES + ["low"]


async def _all_taken(open_rig: OpenRig, limits: Limits) -> None:
    rig = await open_rig(access=KEYS, limits=limits)
    for _ in range(2):
        await rig.reached(chat("alpha", LOW))
    refused = await rig.refusal(chat("alpha", LOW))
    unknown = await rig.refusal(get("/v1/models"))
    feeds = [await feed(rig, get("/hotseat/events", OPS)) for _ in range(2)]
    statuses = [await managed(rig, request) for request in (QUEUE, UNLOAD, HEALTH, HEALTH)]
    health = await rig.send(HEALTH)
    await (await rig.management.call()).say(HELLO)
    await health.message()
    silent = [await rig.client() for _ in range(MOST_BEYOND - len(feeds))]
    for client in silent:
        await client.send(b"\r\n")  # allowed before a request

    assert (refused.status, unknown.status) == (429, 401)
    assert statuses == [200] * 4
    assert await health.end() is not None, "anybody may ask, but nobody keeps a place"
    assert await silent[-1].end() is not None, "without a head it ends in a moment"
    assert await managed(rig, QUEUE) == 200


@shared("connections")
async def _connections(open_rig: OpenRig) -> None:
    await _all_taken(open_rig, Limits(connections=2))


@shared("connections of an address")
async def _connections_of_an_address(open_rig: OpenRig) -> None:
    await _all_taken(open_rig, Limits(per_address=2))


@shared("event feeds")
async def _feeds(open_rig: OpenRig) -> None:
    """A quarter of the connections, and they are closed if they are refused."""
    rig = await open_rig(access=KEYS, limits=Limits(connections=12))
    opened = [await feed(rig) for _ in range(3)]
    client = await rig.send(FEED)
    refused = await client.message()
    await feed(rig, get("/models/sse", OPS))
    _, answered = await rig.exchange(chat("alpha", LOW))
    opened[0].hang_up()
    await come_true(lambda: len(rig.relay.context.places.feeds) == 2)
    await feed(rig)

    assert (refused.status, refused["Connection"], answered.status) == (429, "close", 200)


async def test_one_client_has_a_bounded_number_of_feeds(open_rig: OpenRig) -> None:
    """Each change of a model costs for each of them; another key still has its own."""
    keys = (ApiKey("lows", Role.INFERENCE, "low"), ApiKey("others", Role.INFERENCE, "other"))
    rig = await open_rig(access=Access(api_keys=keys))
    for _ in range(MOST_FEEDS):
        await feed(rig)
    refused = await rig.refusal(FEED)
    await feed(rig, get("/models/sse", "Authorization: Bearer others"))

    assert refused.status == 429


@shared("memory of bodies")
async def _memory(open_rig: OpenRig) -> None:
    """A client has half of it, operators some beyond it; a small body is served, also if it comes after its head."""
    rig = await open_rig(access=KEYS)
    body, bodies = b'{"model": "alpha", "x": "%b"}' % (b"x" * 20_000), rig.relay.context.bodies
    bodies._in_memory_of["low"] += MOST_IN_MEMORY // 2
    refused = [await rig.refusal(post(body, LOW))]
    del bodies._in_memory_of["low"]
    await rig.exchange(post(body, LOW))
    bodies.in_memory += MOST_IN_MEMORY + 1
    refused += [await rig.refusal(post(body, LOW))]
    _, large = await rig.exchange(post(body, OPS))
    later = ("Content-Length: 15", "Expect: 100-continue")
    client = await rig.send(get("/hotseat/models/a/overrides", OPS, *later, method="PUT"))
    await client.read_until(b"\r\n\r\n")
    await client.send(b'{"pinned":true}')
    await (await rig.management.call()).say(HELLO)
    answered = await client.message()
    bodies.in_memory -= MOST_IN_MEMORY + 1

    assert [each.status for each in refused] == [429] * 2
    assert (large.status, answered.status) == (200, 200)


@shared("uploads on disk")
async def _uploads(open_rig: OpenRig) -> None:
    rig = await open_rig(access=KEYS, limits=Limits(body=4 << 20, uploads=4 << 20))
    rig.relay.context.bodies.on_disk += 4 << 20
    upload = post(b"x" * (2 << 20), LOW, "Content-Type: audio/wav", target="/v1/audio/transcriptions?model=alpha")
    refused = await rig.refusal(upload)
    statuses = [await managed(rig, request) for request in (QUEUE, UNLOAD, HEALTH)]
    rig.relay.context.bodies.on_disk -= 4 << 20

    assert (refused.status, statuses) == (429, [200] * 3)


@shared("wrong keys of an address")
async def _wrong_keys(open_rig: OpenRig) -> None:
    rig = await open_rig(access=KEYS)
    statuses = [(await rig.refusal(get("/v1/models", "x-api-key: wrong"))).status for _ in range(MOST_WRONG + 1)]

    assert (statuses[-1], await managed(rig, QUEUE)) == (429, 200)


@shared("known heads")
async def _heads(open_rig: OpenRig) -> None:
    rig = await open_rig(access=KEYS)
    await managed(rig, QUEUE)
    for number in range(MOST_KNOWN + 1):
        await managed(rig, get("/v1/models", LOW, f"X-Any: {number}"))

    assert await managed(rig, QUEUE) == 200


@shared("idle connections to upstreams")
async def _idle(open_rig: OpenRig) -> None:
    """They take descriptors that others need, so only some are kept."""
    rig = await open_rig(access=KEYS)
    rig.stop_clocks()  # none of them expires
    waiting = [await rig.reached(chat("alpha", LOW)) for _ in range(MOST_IDLE + 5)]
    for client, call in waiting:
        await call.say(HELLO)
        await client.message()

    await come_true(lambda: rig.relay.context.pool.idle == MOST_IDLE)


# Which responses are endless


def test_every_feed_is_marked_in_the_table_of_paths() -> None:
    """Otherwise it would count neither for its key nor among the feeds."""
    routes = {re.sub(r"{[^}]+}", "x", route.path): route for each in ROUTERS for route in each.router.routes}
    feeds = {path for path, route in routes.items() if "LiveStream(" in getsource(route.endpoint)}
    rules = {path: ONLY_LISTED.of_ours(b"GET", path.encode()) for path in routes}
    marked = {path for path, rule in rules.items() if rule is not None and rule.is_feed}

    assert marked == feeds
    assert len(feeds) >= 8


async def test_a_feed_counts_for_its_key(open_rig: OpenRig) -> None:
    """Also an operator's, if the key has a limit; until the feed ends."""
    keys = (ApiKey("lows", Role.INFERENCE, "low", concurrency=1), ApiKey("opss", Role.OPERATE, "ops", concurrency=1))
    rig = await open_rig(access=Access(api_keys=keys))
    opened = [await feed(rig), await feed(rig, get("/hotseat/events", OPS))]
    refused = [await rig.refusal(request) for request in (FEED, chat("alpha", LOW), get("/hotseat/traffic", OPS))]
    counted = [account.in_flight for account in rig.relay.context.policy.accounts.all()]
    for client in opened:
        client.hang_up()
    await come_true(lambda: not any(account.in_flight for account in rig.relay.context.policy.accounts.all()))

    assert [each.status for each in refused] == [429] * 3
    assert counted == [1, 1]
    assert (await rig.exchange(chat("alpha", LOW)))[1].status == 200
