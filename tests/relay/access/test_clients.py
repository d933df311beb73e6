"""Who a client is: every limit, turn, lockout and record goes by one function."""

from __future__ import annotations

import ast
import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, get
from tests.support.waiting import come_true

import hotseat.relay
from hotseat.errors import HotseatError
from hotseat.fleet.host_headers import INFERENCE, lines_for_host
from hotseat.identifiers import ClientId, HostName
from hotseat.relay.access.api_keys import UNTOUCHED, Verdict
from hotseat.relay.access.policy import Policy
from hotseat.relay.access.wrong_keys import MOST_WRONG
from hotseat.relay.downstream import limits as bounds
from hotseat.relay.downstream.limits import SMALL_BODY, Bodies, ConnectionCount
from hotseat.relay.http.body import Body
from hotseat.relay.http.request_head import parse_request_head
from hotseat.settings import Access, ApiKey, Limits, Role, Settings
from hotseat.state.audit_file import UNPRIVILEGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.relay.conftest import OpenRig

HEADER = "X-Forwarded-For"
PROXIES = ("127.0.0.1", "10.0.0.0/8", "fd00::7")
BOSS = ApiKey("bosss", Role.ADMIN, "boss")
BEHIND = Access(trusted_proxies=PROXIES, client_header=HEADER, api_keys=(BOSS,))
OPEN = Access(trusted_proxies=PROXIES, client_header=HEADER)
ONE, SAME, OTHER = (f"{HEADER}: 2001:db8:0:{end}" for end in ("1::7", "1::8", "2::7"))
"""Two addresses of one network, and one of another."""
KEY = "Authorization: Bearer bosss"


@pytest.mark.parametrize(
    ("peer", "fields", "holder", "client"),
    [
        ("192.0.2.7", [], "", "192.0.2.7"),
        ("::ffff:192.0.2.7", [], "", "192.0.2.7"),
        ("2001:db8:0:1::7", [], "", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::9", [], "", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", [], "", "fe80::/64"),
        ("local", [], "", "local"),
        ("192.0.2.7", [f"{HEADER}: 6.6.6.6"], "", "192.0.2.7"),
        ("192.0.2.7", [f"{HEADER}: 6.6.6.6"], "boss", "boss"),
        ("10.0.0.1", [f"{HEADER}: 192.0.2.7"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: 192.0.2.7"], "boss", "boss"),
        ("10.0.0.1", [ONE], "", "2001:db8:0:1::/64"),
        ("10.0.0.1", [f"{HEADER}: ::ffff:192.0.2.7"], "", "192.0.2.7"),
        ("10.0.0.1", [], "", "10.0.0.1"),
        ("fd00::7", [], "", "fd00::7"),
        ("10.0.0.1", [f"{HEADER}: 6.6.6.6, 192.0.2.7"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: 6.6.6.6", f"{HEADER}: 192.0.2.7"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: 192.0.2.7, 10.0.0.2"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: 10.0.0.3, 10.0.0.2"], "", "10.0.0.3"),
        ("10.0.0.1", [f"{HEADER}: 192.0.2.7:50001"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: [2001:db8:0:1::7]"], "", "2001:db8:0:1::/64"),
        ("10.0.0.1", [f"{HEADER}: [2001:db8:0:1::8]:443"], "", "2001:db8:0:1::/64"),
        ("10.0.0.1", [f"{HEADER}: [::ffff:192.0.2.7]:443"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: 192.0.2.7:50001, 10.0.0.2:50002"], "", "192.0.2.7"),
        ("10.0.0.1", [f"{HEADER}: 192.0.2.7:70000"], "", "192.0.2.7:70000"),
        ("10.0.0.1", [f"{HEADER}: "], "", "10.0.0.1"),
        ("10.0.0.1", [f"{HEADER}: {'x' * 64}"], "", "x" * 64),
    ],
)
def test_one_function_says_who_a_client_is(peer: str, fields: list[str], holder: str, client: str) -> None:
    """The key, else what a trusted proxy added itself, else the address; one IPv6 network is one client."""
    head = parse_request_head(get("/slots", *fields))

    assert Policy(Settings(access=OPEN)).client_of(head, Verdict(holder=holder), peer) == client


@pytest.mark.parametrize("says", ["key or user", "proxy", "host"])
def test_long_names_that_begin_alike(says: str) -> None:
    """Each is a client of its own with a short name, which is the same each time and at each host."""
    policy = Policy(Settings(access=OPEN))

    def client_of(name: str) -> str:
        if says == "key or user":
            return policy.client_of(parse_request_head(get("/slots")), Verdict(holder=name), "10.0.0.1")
        field, verdict = ("Hotseat-Client", Verdict(from_host="a")) if says == "host" else (HEADER, UNTOUCHED)
        return policy.client_of(parse_request_head(get("/slots", f"{field}: {name}")), verdict, "10.0.0.1")

    ann, bob = "x" * 100 + "ann", "x" * 100 + "bob"
    first, second = client_of(ann), client_of(bob)

    assert first != second
    assert (len(first), client_of(ann), client_of(first)) == (64, first, first)
    assert first.startswith("x" * 47)


def test_a_chain_of_thousands_of_proxies() -> None:
    """Only the last sixteen addresses are looked at, so that it takes little time."""
    head = parse_request_head(get("/slots", f"{HEADER}: 192.0.2.7{', 10.0.0.2' * 3000}, 10.0.0.9{', 10.0.0.3' * 15}"))
    policy = Policy(Settings(access=Access(trusted_proxies=PROXIES * 2, client_header=HEADER)))
    best_s = math.inf
    for _ in range(3):
        began = time.thread_time()
        policy.client_of(head, UNTOUCHED, "10.0.0.1")
        best_s = min(best_s, time.thread_time() - began)

    assert policy.client_of(head, UNTOUCHED, "10.0.0.1") == "10.0.0.9"
    assert best_s < 0.005


@pytest.mark.parametrize(
    "client", ["ann", "日本", "中国", "Zoë", "100%25", " the boss ", "2001:db8:0:1::/64", "æ\x97¥", "日" * 64]
)
def test_a_client_has_the_same_name_at_another_host(client: str) -> None:
    """Names in all scripts are told apart there, so each has its own turn, limits and records."""
    lines = lines_for_host(HostName("a"), ClientId(client), INFERENCE).decode("ascii").splitlines()
    head = parse_request_head(get("/slots", *lines))

    assert Policy(Settings(access=OPEN)).client_of(head, Verdict(from_host="a"), "10.0.0.1") == client


@pytest.mark.parametrize(("sent", "client"), [(["ann"], "ann"), (["eve", "ann"], "ann"), (["Doe, ann"], "Doe, ann")])
def test_a_header_of_the_proxys_own(sent: list[str], client: str) -> None:
    """Other headers count as a whole, and the last one is the proxy's."""
    head = parse_request_head(get("/slots", *(f"X-User: {name}" for name in sent)))
    policy = Policy(Settings(access=Access(trusted_proxies=PROXIES, client_header="X-User")))

    assert policy.client_of(head, UNTOUCHED, "127.0.0.1") == client
    assert policy.client_of(head, UNTOUCHED, "127.0.0.2") == "127.0.0.2"


# What goes by it


def test_connections_of_a_network_are_counted_together() -> None:
    """Whoever has an IPv6 address has its network."""
    count, limits = ConnectionCount(None), Limits(per_address=2)
    excess = [count.add(f"2001:db8:0:1::{number}", limits, is_proxy=False) for number in range(3)]
    elsewhere = count.add("2001:db8:0:2::1", limits, is_proxy=False)
    count.remove("2001:db8:0:1::0")

    assert [each is None for each in excess] == [True, True, False]
    assert elsewhere is None
    assert count.add("2001:db8:0:1::9", limits, is_proxy=False) is not None
    count.remove("2001:db8:0:1::1")
    count.remove("2001:db8:0:1::2")
    assert count.add("2001:db8:0:1::9", limits, is_proxy=False) is None


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (OPEN, {(ONE,): "2001:db8:0:1::/64", (OTHER,): "2001:db8:0:2::/64", (): "127.0.0.1"}),
        (BEHIND, {(ONE, KEY): "boss"}),
    ],
)
async def test_turns_and_the_list_of_requests(
    open_rig: OpenRig, access: Access, expected: dict[tuple[str, ...], str]
) -> None:
    """Waiting and listed requests have the client of a trusted proxy, or the key's name."""
    rig = await open_rig(access=access)
    clients = [await rig.send(chat("slow", *fields)) for fields in expected]
    await come_true(lambda: rig.waiting() == len(expected))
    queued = {ticket.client for ticket in rig.dispatcher.views.current().queue}
    listed = {each.client for each in rig.relay.connections.in_progress()}
    for client in clients:
        client.hang_up()
    await come_true(lambda: rig.waiting() == 0)
    rig.launcher.become_ready("slow")

    assert queued == listed == set(expected.values())


async def test_the_activity_names_the_key_of_a_request_behind_a_proxy(open_rig: OpenRig) -> None:
    """Neither the proxy's address nor the header that it adds."""
    rig = await open_rig(access=BEHIND)
    named: list[str] = []
    rig.activity.finished = lambda *facts: named.append(facts[5])  # type: ignore[method-assign]
    await rig.exchange(chat("alpha", ONE, KEY), HELLO)

    assert named == ["boss"]


async def test_wrong_keys_of_one_client_of_a_proxy(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """They lock out its network, and nobody else behind the same proxy."""
    rig = await open_rig(access=BEHIND)
    for number in range(MOST_WRONG):
        await rig.refusal(get("/v1/models", f"x-api-key: guess-{number}", (ONE, SAME)[number % 2]))
    statuses = [(await rig.refusal(get("/v1/models", "x-api-key: guess", who))).status for who in (SAME, OTHER)]
    rig.relay.context.wrong_keys.counts.end_minute()

    assert statuses == [429, 401]
    assert f"address=2001:db8:0:1::/64 count={MOST_WRONG + 1}" in caplog.text


async def test_a_name_in_the_log_cannot_add_fields(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """A proxy may pass on what its client chose."""
    rig = await open_rig(access=Access(trusted_proxies=PROXIES, client_header="X-User", api_keys=(BOSS,)))
    await rig.refusal(get("/v1/models", "x-api-key: guess", "X-User: ann count=7"))
    rig.relay.context.wrong_keys.counts.end_minute()

    assert 'address="ann count=7" count=1' in caplog.text


async def test_lines_about_refusals(open_rig: OpenRig) -> None:
    """Each client of a proxy has its own lines in a minute; the address is still that of the connection."""
    rig = await open_rig(access=BEHIND)
    for who in [*[ONE] * (MOST_WRONG + 2), OTHER]:
        await rig.refusal(get("/v1/models", who))
    rig.relay.context.audit._of_anonymous.counts.end_minute()
    lines = [json.loads(line) for line in rig.audit.with_name(UNPRIVILEGED).read_text().splitlines()]

    assert [line["address"] for line in lines] == ["127.0.0.1"] * (MOST_WRONG + 1) + ["2001:db8:0:1::/64"]
    assert lines[-1]["count"] == 2


async def test_uploads_of_one_client_of_a_proxy(open_rig: OpenRig) -> None:
    """The body of a request counts for its client."""
    rig = await open_rig(access=OPEN)
    senders: list[str] = []

    def noted(body: Body, peer: str) -> None:
        senders.append(body.sender)

    rig.relay.context.check_space = noted  # type: ignore[method-assign]
    client = await rig.send(get("/slots", "Content-Length: 100000", ONE, method="POST") + b"a")
    await come_true(lambda: bool(senders))
    client.hang_up()

    assert senders == ["2001:db8:0:1::/64"]


def test_uploads_of_one_client_are_half_of_all() -> None:
    """The other half is left to others."""
    bodies, limits = Bodies(), Limits(uploads=100, body=1)
    for sender, fits in (("ann", True), ("ann", False), ("bob", True)):
        body = Body(may_spool=True)
        body.sender = sender
        body.is_spooled = True
        bodies._on_disk_of[sender] += 40
        try:
            bodies.check(body, limits, is_proxy=False)
        except HotseatError:
            assert not fits
        else:
            assert fits


@pytest.mark.parametrize("is_proxy", [False, True])
def test_bodies_of_one_client_take_half_of_the_memory(monkeypatch: pytest.MonkeyPatch, *, is_proxy: bool) -> None:
    """A proxy has all of it, since it stands for many; whatever ends is given back."""
    monkeypatch.setattr(bounds, "MOST_IN_MEMORY", 4 * SMALL_BODY)
    counted, sent = Bodies(), []
    fits = []
    for sender in ("ann", "ann", "bob"):
        body = Body(b"x" * (SMALL_BODY + 1))
        body.sender = sender
        counted.count(body)
        try:
            counted.check(body, Limits(json_body=1), is_proxy=is_proxy)
            fits.append(True)
        except HotseatError:
            fits.append(False)
        sent.append(body)
    for body in sent:
        counted.forget(body)

    assert fits == [True, is_proxy, True]
    assert (counted.in_memory, dict(counted._in_memory_of)) == (0, {})


# Where an address is read

ABOUT_CLIENTS = {
    "access/audit.py": "records the address of the connection beside the key",
    "access/authority.py": "reduces an address to what is counted",
    "access/policy.py": "says who a client is",
    "context.py": "passes both to the audit, and asks whether a body is a proxy's own",
    "downstream/connection.py": "asks the kernel once",
    "downstream/connections.py": "counts connections, before anything is read",
    "downstream/limits.py": "counts connections, before anything is read",
    "downstream/listener.py": "counts connections, before their TLS handshake",
    "downstream/request_reader.py": "asks the policy who the client is",
    "exchange/accounting.py": "passes the address to the audit",
    "exchange/exchange.py": "passes the address on to the upstream's head",
    "exchange/framers.py": "declares the address of a connection",
    "exchange/response_translation.py": "asks whether a body is a proxy's own",
    "exchange/start.py": "passes the address to the audit",
    "exchange/targets.py": "passes the address on to the upstream's head",
    "exchange/upstream_head.py": "says X-Forwarded-For",
    "http/forwarded_head.py": "says X-Forwarded-For",
}
"""Whoever counts, orders or names clients asks `Policy.client_of` instead of reading an address or a header."""
ADDRESS_NAMES = {"peer", "_peer", "peername", "client_header", "_client_header", "x-forwarded-for", "x-real-ip"}
NOT_CLIENTS = {"remote"}
"""`remote.peer` is the server whose model it is."""


def test_no_other_place_reads_who_a_client_is() -> None:
    """A new limit, rule or record that reads an address or a header itself would be a second answer."""
    root = Path(hotseat.relay.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if ADDRESS_NAMES & set(_names_in(ast.parse(path.read_text())))
    }

    assert found == set(ABOUT_CLIENTS)


def _names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in NOT_CLIENTS:
                pass
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.arg(arg=name):
                yield name
            case ast.Constant(value=bytes() as raw):
                yield raw.decode("latin-1").lower()
            case ast.Constant(value=str(text)):
                yield text.lower()
