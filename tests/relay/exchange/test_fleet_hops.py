"""Requests forwarded to other hosts of the fleet, and requests that other hosts forward, through a running relay."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from tests.support.fake_launcher import spec
from tests.support.host_headers import SECRET, passed_on
from tests.support.relay_rig import HELLO, chat, get, post, turns
from tests.support.scripted_upstream import on_a_port
from tests.support.transport import DEADLINE_S, End, within
from tests.support.waiting import come_true

from hotseat.catalog.named_models import FleetModel, Selector, Strategy
from hotseat.catalog.spec import HOST_TIMEOUTS, BodyChanges, Timeouts
from hotseat.errors import HotseatError, NoHostAvailable, NotServed
from hotseat.fleet.proofs import FleetSecret, Signer
from hotseat.fleet.route import THIS_HOST, OtherHost
from hotseat.identifiers import Address, HostName, ModelName
from hotseat.relay.access.sandbox import SANDBOX
from hotseat.settings import Access, ApiKey, Fleet, Settings
from hotseat.tasks import Tasks
from hotseat.tracing.traceparent import Parent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import ScriptedUpstream

    from hotseat.fleet.forwarded import Forwarded
    from hotseat.fleet.route import Route
    from hotseat.identifiers import ClientId

NOWHERE = Address("127.0.0.1", 1)
FAILED = b"HTTP/1.1 503 x\r\nX-Error-Code: model_failed_to_start\r\nContent-Length: 4\r\n\r\nrest"
NOT_LOADED = FAILED.replace(
    b"Content", b"X-Error-Message: far exited with code 1\r\nRetry-After: 7\r\nHotseat-Not-Served: 1\r\nContent"
)
NOT_SERVED = b"HTTP/1.1 503 gone\r\nHotseat-Not-Served: 1\r\nContent-Length: 4\r\n\r\nbusy"
STREAM_BEGINS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nd\r\ndata: hello\n\n\r\n"
)
HERE_NAME = HostName("here")
FLEET_MODELS = {"far": FleetModel(ModelName("far")), "distant": FleetModel(ModelName("far"))}


@dataclass
class ScriptedHosts:
    """A fleet that selects hosts as the test defines."""

    choices: list[Route | HotseatError]
    name: HostName = HERE_NAME
    signer: Signer = field(default_factory=lambda: Signer(FleetSecret([SECRET])))
    must_agree: bool = False
    never_agree: bool = False
    turned_away_by: list[str] = field(default_factory=list)
    broken_off_by: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    disbelieved_by: list[str] = field(default_factory=list)
    away: list[str] = field(default_factory=list)
    forwarded: list[Forwarded] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    without: list[set[str]] = field(default_factory=list)
    """The hosts that each choice excluded."""
    not_taken: HotseatError | None = None
    """What requests of other hosts get."""
    tasks: Tasks = field(default_factory=Tasks)

    def select(self, model: ModelName, client: ClientId, without: Collection[HostName]) -> Route | None:
        self.without.append({*without})
        if self.must_agree:
            return None
        choice = self.choices.pop(0)
        if isinstance(choice, HotseatError):
            raise choice
        return choice

    def claim_and_select(
        self,
        model: ModelName,
        client: ClientId,
        agreed: Callable[[Route | HotseatError], None],
        without: Collection[HostName],
    ) -> asyncio.Task[None]:
        async def ask() -> None:
            if self.never_agree:
                await asyncio.Event().wait()
            agreed(self.choices.pop(0))

        return self.tasks.start(ask(), "agree")

    def check_taken(self, model: ModelName) -> None:
        if self.not_taken is not None:
            raise self.not_taken

    def sent(self, where: OtherHost, model: ModelName, request: Forwarded) -> None:
        self.away.append(f"{model} at {where.host}")
        self.forwarded.append(request)

    def came_back(self, host: HostName, model: ModelName, request: Forwarded) -> None:
        self.away.remove(f"{model} at {host}")
        self.forwarded.remove(request)

    def turned_away(self, host: HostName, model: ModelName, problem: str) -> None:
        self.turned_away_by.append(host)
        self.problems.append(problem)

    def suspect(self, host: HostName, problem: str) -> None:
        self.broken_off_by.append(host)

    def disbelieved(self, host: HostName, reason: str) -> None:
        self.disbelieved_by.append(f"{host}: {reason}")

    def failed(self, host: HostName, model: ModelName) -> None:
        self.failures.append(f"{model} at {host}")

    def note_load(self, host: HostName, model: ModelName, load: int) -> None:
        self.loads.append(f"{load} for {model} at {host}")


@pytest.fixture
async def boxes() -> AsyncIterator[list[ScriptedUpstream]]:
    """Two other hosts."""
    async with AsyncExitStack() as stack:
        servers = [on_a_port(), on_a_port()]
        for server in servers:
            stack.push_async_callback(server.aclose)
        yield servers


def at(name: str, box: ScriptedUpstream | Address) -> OtherHost:
    return OtherHost(HostName(name), box if isinstance(box, Address) else box.address)


async def joined(open_rig: OpenRig, *choices: Route | HotseatError, **known: object) -> tuple[RelayRig, ScriptedHosts]:
    rig = await open_rig(
        settings=known.pop("settings", Settings(fleet=Fleet(("nats://x",), HostName("here"), secrets=("hush",)))),
        fleet_models=FLEET_MODELS,
        **known,
    )
    hosts = ScriptedHosts(list(choices))
    rig.relay.context.hosts = hosts  # type: ignore[assignment]  # all that the relay uses
    return rig, hosts


async def test_a_page_from_another_host_is_sandboxed_once(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """A page from another host has the sandbox once, whether or not that host added it."""
    rig, _ = await joined(open_rig, *[at("b", boxes[0])] * 4)
    lines = [b"Content-Type: text/html\r\n", b"%b: %b\r\nContent-Type: text/html\r\n" % SANDBOX]
    for fields in lines * 2:
        client = await rig.send(get("/upstream/distant/"))
        await (await boxes[0].call()).say(b"HTTP/1.1 200 OK\r\n%bContent-Length: 5\r\n\r\nhello" % fields)
        note_load = await client.message()

        assert note_load.all("Content-Security-Policy") == [SANDBOX[1].decode()]
        assert note_load["X-Content-Type-Options"] == "nosniff"


async def test_a_page_at_its_own_address_from_another_host(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The other host takes it for a request of its own pages, wherever the link was; nobody sandboxes it."""
    rig, _ = await joined(open_rig, *[at("b", boxes[0])] * 2)
    link = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Referer: http://localhost/")
    for fields in (link, ("Origin: http://alpha.localhost", "Sec-Fetch-Site: same-origin")):
        client = await rig.send(get("/page", *fields).replace(b"Host: box", b"Host: alpha.localhost"))
        call = await boxes[0].call()
        await call.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello")

        assert (await client.message()).all("Content-Security-Policy") == []
        assert call.request.first_line == "GET /page HTTP/1.1"
        assert call.request["hotseat-model"] == "alpha"
        assert call.request.all("origin") in ([], [f"http://{boxes[0].address.authority}"])
        assert "sec-fetch-site" not in call.request.names


async def test_a_page_for_another_host_is_not_sandboxed(open_rig: OpenRig) -> None:
    """The host that the client asked does that: it knows whether the page is at its own address."""
    rig, _ = await joined(open_rig)
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
    for _ in range(2):
        _, answered = await rig.exchange(get("/", *passed_on(target="/", method="GET", role="operate")), page)

        assert answered.all("Content-Security-Policy") == []


async def test_another_host_serves_a_request(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The other host gets sender, model, client and role; body, path and other headers are unchanged."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]), at("b", boxes[0]))
    for _ in range(2):  # the second time the client's head is known already
        client = await rig.send(chat("distant", "X-Mine: stays"))
        call = await boxes[0].call()
        await come_true(lambda: hosts.away == ["far at b"])
        await call.say(HELLO)

        assert (await client.message()).body == b"hello"
        assert call.request.first_line == "POST /v1/chat/completions HTTP/1.1"
        assert json.loads(call.request.body) == {"model": "distant"}
        said = [call.request[name] for name in ("hotseat-from", "hotseat-model", "hotseat-client", "hotseat-role")]
        assert said == ["here", "far", "127.0.0.1", "operate"]
        assert call.request["x-mine"] == "stays"
        assert call.request["x-request-id"] == "box-7"
    await come_true(lambda: hosts.away == [])
    assert [(entry.model, entry.status) for entry in rig.activity.entries] == [("far", 200), ("far", 200)]


async def test_a_traced_request_that_another_host_serves(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The span of the forwarding is the parent of what the other host records, and names it."""
    rig, _ = await joined(open_rig, *[at("b", boxes[0])] * 2)
    traces = rig.trace()
    for _ in range(2):  # the second time the client's head is known already
        client = await rig.send(chat("far"))
        call = await boxes[0].call()
        await call.say(HELLO)
        await client.message()
        kept = traces.requests.pop()

        assert call.request["traceparent"] == f"00-{kept.trace.trace_id:032x}-{kept.trace.forward_id:016x}-01"
        assert (kept.model, kept.sent_to_host, kept.from_host, kept.reason) == ("far", "b", "", "")
        assert kept.granted_at is not None


async def test_a_traced_request_that_another_host_forwarded(open_rig: OpenRig) -> None:
    """It belongs to the trace of that host, which knows the client's key."""
    rig, _ = await joined(open_rig)
    traces = rig.trace()
    await rig.exchange(chat("anything", *passed_on(), f"traceparent: 00-{7:032x}-{8:016x}-01"))
    kept = traces.requests.pop()

    assert (kept.trace.parent, kept.from_host, kept.key) == (Parent(7, 8, is_sampled=True), "a", "")


async def test_two_models_of_another_host_under_the_same_head(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """Requests with equal heads and different models name the right model to the other host."""
    rig, _ = await joined(open_rig, *[at("b", boxes[0])] * 3)
    client = await rig.client()
    for model in ("alpha", "far", "alpha"):
        await client.send(chat(model, "X-Same: 1"))
        call = await boxes[0].call()
        await call.say(HELLO)
        await client.message()

        assert call.request["hotseat-model"] == model


async def test_this_host_serves_what_the_fleet_leaves_to_it(open_rig: OpenRig) -> None:
    """A request placed on this host reaches the model server without Hotseat headers."""
    rig, hosts = await joined(open_rig, THIS_HOST)
    asked, answered = await rig.exchange(chat("alpha"))

    assert answered.body == b"hello"
    assert not [name for name in asked.names if name.startswith("hotseat-")]
    assert hosts.away == []


async def test_hosts_that_must_agree_are_waited_for(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """A request waits until the hosts have agreed, and is then forwarded."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]))
    hosts.must_agree = True
    client = await rig.send(chat("far"))
    await (await boxes[0].call()).say(HELLO)

    assert (await client.message()).body == b"hello"


async def test_a_client_that_leaves_while_hosts_agree_is_sent_nowhere(open_rig: OpenRig) -> None:
    """If the client disconnects during the agreement, the agreement is cancelled."""
    rig, hosts = await joined(open_rig, THIS_HOST)
    hosts.must_agree = hosts.never_agree = True
    client = await rig.send(chat("far"))
    await come_true(lambda: list(hosts.tasks) != [])
    client.hang_up()

    await come_true(lambda: list(hosts.tasks) == [])
    assert [entry.status for entry in rig.activity.entries] == [499]


async def test_this_host_leaves_the_fleet_while_hosts_agree(open_rig: OpenRig) -> None:
    """The request gets an error that says so, and its ticket is given back."""
    rig, hosts = await joined(open_rig, THIS_HOST)
    hosts.must_agree = hosts.never_agree = True
    client = await rig.send(chat("far"))
    await come_true(lambda: list(hosts.tasks) != [])
    await hosts.tasks.aclose()
    answer = await client.message()

    assert answer.status == 503
    assert b"this host leaves the fleet" in answer.body
    await come_true(lambda: not rig.dispatcher.tickets.in_progress())


async def test_a_host_that_cannot_be_reached_is_passed_over(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """If a host is unreachable, the next host serves the request."""
    rig, hosts = await joined(open_rig, at("gone", NOWHERE), at("b", boxes[0]))
    client = await rig.send(chat("far"))
    await (await boxes[0].call()).say(HELLO)

    assert (await client.message()).body == b"hello"
    assert (hosts.turned_away_by, hosts.problems) == (["gone"], ["no connection: Connection refused"])


@pytest.mark.parametrize("last", ["another host", "this one"])
async def test_a_host_that_turns_a_request_away_did_nothing_for_it(
    open_rig: OpenRig, boxes: list[ScriptedUpstream], last: str
) -> None:
    """If a host turns a request away, the next one gets it with its whole body."""
    rig, hosts = await joined(open_rig, at("a", boxes[0]), at("b", boxes[1]) if last == "another host" else THIS_HOST)
    client = await rig.send(chat("alpha"))
    await (await boxes[0].call()).say(NOT_SERVED)
    call = await (boxes[1] if last == "another host" else rig.alpha).call()
    await call.say(HELLO)
    answered = await client.message()

    assert json.loads(call.request.body) == {"model": "alpha"}
    assert (answered.status, answered.body) == (200, b"hello")
    assert hosts.turned_away_by == ["a"]
    assert hosts.away == []


async def test_a_host_does_not_trust_this_one(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The next host gets the request, and the reason is kept, for clients that no host can serve."""
    rig, hosts = await joined(open_rig, at("a", boxes[0]), at("b", boxes[1]))
    client = await rig.send(chat("far"))
    why = "the clocks of here and a are 90 s apart. Synchronize both with NTP."
    refusal = b"Hotseat-Not-Served: unproven\r\nX-Error-Message: %b" % why.encode()
    await (await boxes[0].call()).say(NOT_SERVED.replace(b"Hotseat-Not-Served: 1", refusal))
    await (await boxes[1].call()).say(HELLO)

    assert (await client.message()).body == b"hello"
    assert (hosts.disbelieved_by, hosts.problems) == ([f"a: {why}"], [why])


async def test_a_host_with_a_line_tells_how_long_it_is(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The queue length that a host reports is recorded and not sent to the client."""
    rig, hosts = await joined(open_rig, *[at("b", boxes[0])] * 3)
    crowded = HELLO.replace(b"Content-Type", b"Hotseat-Queue-Length: 7\r\nContent-Type")
    for answer in (crowded, HELLO, crowded):
        client = await rig.send(chat("far"))
        await (await boxes[0].call()).say(answer)
        answered = await client.message()

        assert answered.body == b"hello"
        assert "hotseat-queue-length" not in answered.names
    assert hosts.loads == ["7 for far at b", "7 for far at b"]


async def test_a_host_leaves_just_as_its_connection_is_used_again(
    open_rig: OpenRig, boxes: list[ScriptedUpstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports that nothing of the request was delivered, so the next host may serve it."""
    monkeypatch.setattr("hotseat.relay.upstream.connection.is_untaken", lambda *_: True)
    rig, hosts = await joined(open_rig, at("a", boxes[0]), at("a", boxes[0]), at("b", boxes[1]))
    client = await rig.send(chat("far"))
    await (await boxes[0].call()).say(HELLO)
    await client.message()
    await boxes[0].refuse_connections()
    await client.send(chat("far"))
    (await boxes[0].call()).hang_up()
    call = await boxes[1].call()
    await call.say(HELLO)

    assert (await client.message()).status == 200
    assert json.loads(call.request.body) == {"model": "far"}
    assert hosts.turned_away_by == ["a"]


@pytest.mark.parametrize(("may_pass", "retry", "after"), [(True, "true", "1"), (False, "false", None)])
async def test_nobody_is_left(open_rig: OpenRig, may_pass: bool, retry: str, after: str | None) -> None:
    """If no host can serve the request, the client gets 503 with the reason, and is told to retry if that may help."""
    nobody = NoHostAvailable("no host can take far: gone is gone", may_pass=may_pass)
    rig, _ = await joined(open_rig, at("gone", NOWHERE), nobody)
    answered = await rig.refusal(chat("far"))

    assert answered.status == 503
    assert b"no host can take far" in answered.body
    assert answered["x-should-retry"] == retry
    assert answered.all("retry-after") == ([after] if after else [])


@pytest.mark.parametrize("must_agree", [False, True])
async def test_choosing_a_host_fails_unexpectedly(
    open_rig: OpenRig, must_agree: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets an error, and the next request on the connection is served."""
    rig, hosts = await joined(open_rig, at("b", NOWHERE), THIS_HOST)
    hosts.must_agree = must_agree
    with monkeypatch.context() as broken:
        broken.setattr(hosts, "sent", lambda *_: 1 / 0)
        client = await rig.send(chat("alpha"))
        refused = await client.message()
    await client.send(chat("alpha"))
    await (await rig.alpha.call()).say(HELLO)

    assert refused.status == 500
    assert (await client.message()).status == 200


async def test_a_body_that_cannot_be_changed_after_hosts_agreed_is_refused(open_rig: OpenRig) -> None:
    """A body that is too large to change gets 413 even after an agreement."""
    selectors = {"best": Selector("best", Strategy.WARM, ("alpha",))}
    rig, hosts = await joined(open_rig, at("b", NOWHERE), selectors=selectors)
    hosts.must_agree = True
    form = b"{" + b" " * (17 << 20) + b'"model": "best"}'
    head = b"POST /completion?model=best HTTP/1.1\r\nHost: box\r\nContent-Length: %d\r\n\r\n" % len(form)
    answered = await rig.refusal(head + form)

    assert answered.status == 413


async def test_a_body_that_is_changed_for_another_host_counts_where_it_is(
    open_rig: OpenRig, boxes: list[ScriptedUpstream]
) -> None:
    """A body that is read back from disk counts as memory, and as neither after the request."""
    selectors = {"best": Selector("best", Strategy.WARM, ("alpha",))}
    models = (spec("alpha", changes=BodyChanges(model_name="alpha")), spec("beta"))
    rig, _ = await joined(open_rig, at("b", boxes[0]), selectors=selectors, models=models)
    form = b"{" + b" " * (2 << 20) + b'"model": "best"}'
    head = b"POST /completion HTTP/1.1\r\nHost: box\r\nContent-Length: %d\r\n\r\n" % len(form)
    client = await rig.send(head + form)
    call = await boxes[0].call()
    bodies = rig.relay.context.bodies

    assert json.loads(call.request.body) == {"model": "alpha"}
    assert (bodies.on_disk, bodies.in_memory) == (0, len(call.request.body))
    await call.say(HELLO)
    await client.message()
    assert (bodies.on_disk, bodies.in_memory) == (0, 0)


async def test_a_host_that_breaks_off_after_it_was_sent_the_request(
    open_rig: OpenRig, boxes: list[ScriptedUpstream]
) -> None:
    """The client gets 502, no other host gets the request, and it counts against the host."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]), at("a", boxes[1]))
    client = await rig.send(chat("far"))
    (await boxes[0].call()).hang_up()
    answered = await client.message()

    assert answered.status == 502
    assert b"far on b closed the connection before it responded" in answered.body
    assert (hosts.turned_away_by, hosts.broken_off_by) == ([], ["b"])


async def test_a_model_servers_time_does_not_run_while_a_request_waits_at_another_host(
    open_rig: OpenRig, boxes: list[ScriptedUpstream]
) -> None:
    """timeouts.responseHeader applies to this host's server but not to a forwarded request."""
    models = (spec("alpha", timeouts=Timeouts(response_header_s=0.05)), spec("beta"))
    rig, _ = await joined(open_rig, at("b", boxes[0]), THIS_HOST, models=models)
    client = await rig.send(chat("alpha"))
    call = await boxes[0].call()
    late = await rig.send(chat("alpha"))  # its own time is long over when this one's is
    await rig.alpha.call()
    assert (await late.message()).status == 502
    await call.say(HELLO)

    assert (await client.message()).status == 200


async def test_a_host_that_does_not_take_a_connection_is_passed_over_soon(
    open_rig: OpenRig, boxes: list[ScriptedUpstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a host does not accept a connection in time, the next host serves the request."""
    monkeypatch.setattr("hotseat.relay.exchange.targets.HOST_TIMEOUTS", structs.replace(HOST_TIMEOUTS, connect_s=0.2))
    with deaf() as address:
        rig, hosts = await joined(open_rig, at("deaf", address), at("b", boxes[0]))
        client = await rig.send(chat("far"))
        await (await boxes[0].call()).say(HELLO)

        assert (await client.message()).body == b"hello"
        assert hosts.turned_away_by == ["deaf"]


async def test_a_host_whose_power_failed_is_not_waited_for_long(
    open_rig: OpenRig, boxes: list[ScriptedUpstream]
) -> None:
    """Connections to hosts have TCP keep-alive after 5 s and a user timeout of 20 s."""
    rig, _ = await joined(open_rig, at("b", boxes[0]))
    client = await rig.send(chat("far"))
    await (await boxes[0].call()).say(HELLO)
    await client.message()
    connection = rig.relay.context.pool.take(boxes[0].address)
    assert connection is not None
    sock = connection._transport.get_extra_info("socket")

    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
    connection.close()


async def test_a_host_stops_answering_before_its_response(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The client gets 502 host_unresponsive, no other host gets the request, and it is counted nowhere any more."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]), at("a", boxes[1]))
    client = await rig.send(chat("far"))
    call = await boxes[0].call()
    assert hosts.forwarded[0].last_received() is None
    hosts.forwarded[0].host_is_silent()
    answered = await client.message()

    assert (answered.status, answered["x-error-code"]) == (502, "host_unresponsive")
    assert b"b, to which this request was forwarded, stopped answering" in answered.body
    assert await call.ended() in End
    assert (hosts.away, hosts.forwarded, hosts.turned_away_by) == ([], [], [])


async def test_a_host_stops_answering_in_the_middle_of_a_stream(
    open_rig: OpenRig, boxes: list[ScriptedUpstream]
) -> None:
    """The stream is cut visibly: its last event is an error, and its last chunk is missing."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]))
    client = await rig.send(chat("far"))
    call = await boxes[0].call()
    await call.say(STREAM_BEGINS)
    await client.read_until(b"data: hello")
    assert hosts.forwarded[0].last_received() is not None
    hosts.forwarded[0].host_is_silent()
    rest = await client.read_to_end()

    assert b"host_unresponsive" in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert (hosts.away, hosts.forwarded) == ([], [])


@contextmanager
def deaf() -> Iterator[Address]:
    """A listener whose kernel queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(2):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield Address(*listener.getsockname())


async def test_a_host_where_the_model_fails_is_remembered(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The client gets the host's 503, and the failure is recorded for the next placement."""
    rig, hosts = await joined(open_rig, *[at("b", boxes[0])] * 2)
    for _ in range(2):  # the second time the head of the answer is known already
        client = await rig.send(chat("far"))
        await (await boxes[0].call()).say(FAILED)

        assert (await client.message()).status == 503
    assert hosts.failures == ["far at b", "far at b"]


async def test_another_host_loads_what_one_could_not(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The next host gets the whole request, and the first one is not chosen again for it."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]), at("c", boxes[1]))
    client = await rig.send(chat("far"))
    await (await boxes[0].call()).say(NOT_LOADED)
    call = await boxes[1].call()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert json.loads(call.request.body) == {"model": "far"}
    assert (hosts.failures, hosts.turned_away_by, hosts.without) == (["far at b"], [], [set(), {"b"}])
    await come_true(lambda: (hosts.away, rig.dispatcher.tickets.in_progress()) == ([], []))


async def test_another_host_loads_what_this_one_could_not(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The request goes there when the load here has failed."""
    rig, hosts = await joined(open_rig, THIS_HOST, at("b", boxes[0]))
    rig.launcher.broken = ("alpha",)
    client = await rig.send(chat("alpha"))
    call = await boxes[0].call()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert json.loads(call.request.body) == {"model": "alpha"}
    assert (hosts.failures, hosts.without) == (["alpha at here"], [set(), {"here"}])
    await come_true(lambda: (hosts.away, rig.dispatcher.tickets.in_progress()) == ([], []))


async def test_this_host_loads_what_another_one_could_not(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """It serves the request as if it had been chosen first."""
    rig, _ = await joined(open_rig, at("b", boxes[0]), THIS_HOST)
    client = await rig.send(chat("alpha"))
    await (await boxes[0].call()).say(NOT_LOADED)
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message()).body == b"hello"


NOBODY_ELSE = NoHostAvailable("far cannot be placed: no available host has it.")


async def test_no_host_can_load_a_model(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """The client reads why the last one could not, and when a retry may help."""
    rig, _ = await joined(open_rig, at("b", boxes[0]), NOBODY_ELSE)
    client = await rig.send(chat("far"))
    await (await boxes[0].call()).say(NOT_LOADED)
    answered = await client.message()

    assert (answered.status, answered["x-error-code"]) == (503, "model_failed_to_start")
    assert answered["retry-after"] == "7"
    assert answered.body == b'{"error":"far exited with code 1"}'


async def test_neither_this_host_nor_another_can_load_a_model(open_rig: OpenRig) -> None:
    """An operator reads what the server here wrote, as without a fleet."""
    rig, _ = await joined(open_rig, THIS_HOST, NOBODY_ELSE)
    rig.launcher.broken, rig.launcher.output = ("alpha",), ("error: no kernel image",)
    answered = await rig.refusal(chat("alpha"))

    assert (answered.status, answered["x-error-code"]) == (503, "model_failed_to_start")
    assert b"alpha exited with code 1" in answered.body
    assert b"no kernel image" in answered.body


@pytest.mark.parametrize("may_retry", [False, True])
async def test_the_host_that_forwarded_a_request_may_try_another_one(open_rig: OpenRig, may_retry: bool) -> None:
    """It is told that the model could not be started, and that nothing was done with the request."""
    rig, _ = await joined(open_rig)
    rig.launcher.broken = ("alpha",)
    for _ in range(2 if may_retry else 0):  # then it backs off
        await rig.refusal(chat("alpha", *passed_on("alpha")))
    answered = await rig.refusal(chat("alpha", *passed_on("alpha")))

    assert (answered.status, answered["x-error-code"]) == (503, "model_failed_to_start")
    assert answered["hotseat-not-served"] == "1"
    assert ("retry-after" in answered.names) is may_retry


async def test_a_model_server_cannot_turn_a_request_away(open_rig: OpenRig) -> None:
    """A model server's Hotseat-Not-Served is ignored and not sent to the client."""
    rig, _ = await joined(open_rig, THIS_HOST)
    _, answered = await rig.exchange(chat("alpha"), NOT_SERVED)

    assert answered.status == 503
    assert "hotseat-not-served" not in answered.names


async def test_a_selector_is_not_named_to_another_host(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """Another host gets the name of the selected model, not of the selector."""
    selectors = {"best": Selector("best", Strategy.WARM, ("alpha",))}
    rig, _ = await joined(open_rig, at("b", boxes[0]), selectors=selectors)
    client = await rig.send(chat("best"))
    call = await boxes[0].call()
    await call.say(HELLO)
    await client.message()

    assert json.loads(call.request.body) == {"model": "alpha"}
    assert call.request["hotseat-model"] == "alpha"


async def test_what_the_configuration_changes_is_changed_once(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """A forwarded body is not changed; the host that serves it changes it."""
    models = (spec("alpha", changes=BodyChanges(model_name="inner", set={"top_k": 1})),)
    rig, _ = await joined(open_rig, at("b", boxes[0]), models=models)
    client = await rig.send(chat("alpha"))
    call = await boxes[0].call()
    await call.say(HELLO)
    await client.message()

    assert json.loads(call.request.body) == {"model": "alpha"}


# From another host


async def test_a_request_that_was_passed_on_is_served_here(open_rig: OpenRig) -> None:
    """A forwarded request is served with the stated model, without Hotseat headers to the server."""
    rig, _ = await joined(open_rig)
    for _ in range(2):
        asked, answered = await rig.exchange(chat("anything", *passed_on()))

        assert answered.body == b"hello"
        assert not [name for name in asked.names if name.startswith("hotseat-")]


@pytest.mark.parametrize("times", [1, 2])
async def test_the_queue_length_is_sent_to_the_host_that_forwarded_a_request(open_rig: OpenRig, times: int) -> None:
    """The response to another host has the queue length only while requests wait."""
    rig, _ = await joined(open_rig, models=(spec("alpha", concurrency_limit=1),))
    alone = [(await rig.exchange(chat("alpha", *passed_on())))[1] for _ in range(times)]
    client, call = await rig.reached(chat("alpha", *passed_on()))
    waiting = await rig.send(chat("alpha", *passed_on()))
    await come_true(lambda: rig.waiting() == 1)
    await call.say(HELLO)
    with_queue = await client.message()
    await (await rig.alpha.call()).say(HELLO)
    last = await waiting.message()

    assert not any("hotseat-queue-length" in answered.names for answered in alone)
    assert with_queue["hotseat-queue-length"] == "2"
    assert "hotseat-queue-length" not in last.names


async def test_a_host_needs_no_key(open_rig: OpenRig) -> None:
    """A request with a valid proof needs no key, and the client's credentials pass unchanged."""
    settings = Settings(
        fleet=Fleet(("nats://x",), HostName("here"), secrets=("hush",)), access=Access(api_keys=(ApiKey("ours"),))
    )
    rig, _ = await joined(open_rig, settings=settings)
    asked, answered = await rig.exchange(chat("alpha", "Authorization: Bearer theirs", *passed_on()))

    assert answered.status == 200
    assert asked["authorization"] == "Bearer theirs"


@pytest.mark.parametrize("proof", ["Hotseat-Proof: guess", "Hotseat-Proof:", "Hotseat-Fleet: hush", "X-Nothing: 1"])
async def test_who_only_claims_to_be_a_host_is_refused(open_rig: OpenRig, proof: str) -> None:
    """A request that claims to be from a host without a valid proof gets 403."""
    rig, _ = await joined(open_rig)
    answered = await rig.refusal(chat("alpha", "Hotseat-From: a", proof))

    assert answered.status == 403
    assert b"fleet.secret" in answered.body


@pytest.mark.parametrize("configured", [(), ("",)])
@pytest.mark.parametrize("presented", [(), ("",)])
async def test_an_empty_secret_is_nobodys(
    open_rig: OpenRig, configured: tuple[str, ...], presented: tuple[str, ...]
) -> None:
    """With no secret or an empty one, a claimed host gets 403."""
    fleet = Fleet(("nats://x",), HostName("here"), secrets=configured)
    rig, _ = await joined(open_rig, settings=Settings(fleet=fleet, access=Access(api_keys=(ApiKey("ours"),))))
    answered = await rig.refusal(chat("alpha", *passed_on(secrets=presented)))

    assert answered.status == 403


async def test_a_host_alone_takes_no_notice_of_such_fields(open_rig: OpenRig) -> None:
    """Without a fleet, Hotseat headers are ignored and not forwarded."""
    rig = await open_rig()
    asked, answered = await rig.exchange(chat("alpha", "Hotseat-From: a", "Hotseat-Model: beta"))

    assert answered.status == 200
    assert not [name for name in asked.names if name.startswith("hotseat-")]


@pytest.mark.parametrize("model", ["nobody", "far"])
async def test_what_is_not_here_is_turned_away(open_rig: OpenRig, model: str) -> None:
    """A forwarded request for a model that is not here gets 503 with Hotseat-Not-Served."""
    rig, _ = await joined(open_rig)
    answered = await rig.refusal(chat("alpha", *passed_on(model)))

    assert answered.status == 503
    assert answered["hotseat-not-served"] == "1"
    assert answered["x-error-code"] == "not_served"


async def test_a_drained_host_turns_away_what_it_would_have_to_load(open_rig: OpenRig) -> None:
    """A forwarded request gets 503 with Hotseat-Not-Served, and nothing is loaded; a client's is served elsewhere."""
    rig, hosts = await joined(open_rig)
    hosts.not_taken = NotServed("here is drained and takes no requests for alpha.")
    answered = await rig.refusal(chat("alpha", *passed_on("alpha")))

    assert (answered.status, answered["hotseat-not-served"]) == (503, "1")
    assert not rig.dispatcher.views.current().running()


async def test_a_request_that_a_host_sends_as_we_leave_is_answered(open_rig: OpenRig) -> None:
    """A request on a host's kept connection at the beginning of a drain is still served."""
    rig, _ = await joined(open_rig)
    rig.stop_clocks()
    client, call = await rig.reached(chat("alpha", *passed_on()))
    await call.say(HELLO)
    await client.message()
    tasks = Tasks()
    leaving = tasks.start(rig.relay.drain(within=60), "leave")
    await turns()
    await client.send(chat("alpha", *passed_on()))
    await (await rig.alpha.call()).say(HELLO)
    answered = await client.message()

    assert answered.status == 200
    assert answered["connection"] == "close"
    client.hang_up()
    await within(DEADLINE_S, leaving)


async def test_this_host_stops_while_its_client_waits(open_rig: OpenRig, boxes: list[ScriptedUpstream]) -> None:
    """Another host serves the request."""
    rig, hosts = await joined(open_rig, THIS_HOST, at("b", boxes[0]))
    client = await rig.send(chat("slow"))
    await come_true(lambda: len(rig.dispatcher.views.current().queue) == 1)
    await rig.dispatcher.shut_down(within=1)
    call = await boxes[0].call()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert call.request["hotseat-model"] == "slow"
    await come_true(lambda: (hosts.away, rig.dispatcher.tickets.in_progress()) == ([], []))


async def test_this_host_stops_and_no_other_one_can_serve_its_client(open_rig: OpenRig) -> None:
    """The client reads that this host stops."""
    rig, hosts = await joined(open_rig, THIS_HOST, NoHostAvailable("slow cannot be placed: b is drained."))
    client = await rig.send(chat("slow"))
    await come_true(lambda: len(rig.dispatcher.views.current().queue) == 1)
    await rig.dispatcher.shut_down(within=1)
    answered = await client.message()

    assert (answered.status, answered["x-error-code"]) == (503, "shutting_down")
    assert hosts.without == [set(), {"here"}]


async def test_a_kept_connection_of_a_host_does_not_hold_us_up(open_rig: OpenRig) -> None:
    """A drain closes an idle connection of another host long before its own limit."""
    rig, _ = await joined(open_rig)
    client, call = await rig.reached(chat("alpha", *passed_on()))
    await call.say(HELLO)
    await client.message()
    await within(DEADLINE_S, rig.relay.drain(within=60))

    assert await client.end() is End.CLOSED


async def test_an_unknown_model_is_still_answered_404(open_rig: OpenRig) -> None:
    """In a fleet, an unknown model is still a 404."""
    rig, _ = await joined(open_rig)
    answered = await rig.refusal(chat("nobody"))

    assert answered.status == 404
    assert "hotseat-not-served" not in answered.names


async def test_paths_that_start_nothing_stay_here(open_rig: OpenRig) -> None:
    """A path in upstream.ignorePaths gets 409 without selecting a host."""
    rig, hosts = await joined(open_rig)
    answered = await rig.refusal(get("/upstream/beta/favicon.ico"))

    assert answered.status == 409
    assert hosts.choices == []


async def test_other_hosts_may_call_us_as_the_fleet_does(open_rig: OpenRig) -> None:
    """The name in fleet.address is accepted as Host; other names are refused."""
    fleet = Fleet(("nats://x",), HostName("here"), address="http://gpu1.lan:8080", secrets=("hush",))
    rig = await open_rig(settings=Settings(fleet=fleet))
    known = await rig.send(chat().replace(b"Host: box", b"Host: gpu1.lan:8080"))
    await (await rig.alpha.call()).say(HELLO)
    foreign = await rig.send(chat().replace(b"Host: box", b"Host: gpu2.lan:8080"))

    assert (await known.message()).body == b"hello"
    assert "403" in (await foreign.message()).first_line


async def test_an_agreement_that_raises_what_nobody_foresaw(open_rig: OpenRig) -> None:
    """An unexpected error during the agreement is a 500."""
    rig, hosts = await joined(open_rig)
    hosts.must_agree = True  # and there is nothing to choose from

    assert (await rig.refusal(chat("far"))).status == 500


async def test_a_host_that_cannot_be_gone_to(
    open_rig: OpenRig, boxes: list[ScriptedUpstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error after the agreement is a 500, and the request is no longer counted."""
    rig, hosts = await joined(open_rig, at("b", boxes[0]))
    hosts.must_agree = True
    monkeypatch.setattr("hotseat.relay.exchange.targets.host_head", lambda *known: 1 // 0)

    assert (await rig.refusal(chat("far"))).status == 500
    await come_true(lambda: hosts.away == [])


async def test_a_request_of_ollamas_api_is_translated_before_it_travels(
    open_rig: OpenRig, boxes: list[ScriptedUpstream]
) -> None:
    """The next host gets OpenAI's request, also if another one turned it away, and the first one translates back."""
    rig, _ = await joined(open_rig, at("b", boxes[0]), at("c", boxes[1]))
    body = b'{"model":"far:latest","messages":[{"role":"user","content":"hi"}],"stream":false,"keep_alive":0}'
    client = await rig.send(post(body, target="/api/chat"))
    await (await boxes[0].call()).say(NOT_SERVED)
    call = await boxes[1].call()
    completion = b'{"choices":[{"message":{"content":"ho"},"finish_reason":"stop"}]}'
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(completion), completion))
    got = json.loads((await client.message()).body)

    assert call.request.first_line == "POST /v1/chat/completions HTTP/1.1"
    assert json.loads(call.request.body) == {"model": "far", "messages": [{"role": "user", "content": "hi"}]}
    assert call.request["hotseat-model"] == "far"
    assert (got["model"], got["message"]["content"]) == ("far:latest", "ho")
