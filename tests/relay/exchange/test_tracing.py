"""What a traced request tells its model server, and what is kept of it when it ends."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chat, chunked, get, post
from tests.support.waiting import come_true

from hotseat.activity.recent import Tokens
from hotseat.settings import Access, ApiKey
from hotseat.tracing.traceparent import Parent

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

CLIENTS = f"traceparent: 00-{7:032x}-{8:016x}-01"
STATE = "tracestate: vendor=1"
ANSWER = b'{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


async def test_a_hotseat_that_does_not_trace(rig: RelayRig) -> None:
    """The client's trace passes as it was sent, and none is made up."""
    passed, _ = await rig.exchange(chat("alpha", "Traceparent: what-ever", STATE))
    alone, _ = await rig.exchange(chat("alpha"))

    assert ("Traceparent", "what-ever") in passed.fields
    assert passed["tracestate"] == "vendor=1"
    assert "traceparent" not in alone.names


async def test_a_request_without_a_trace(rig: RelayRig) -> None:
    """Each begins its own, also if their heads are equal; the model server is told of it."""
    traces = rig.trace()
    sent = [(await rig.exchange(chat("alpha")))[0]["traceparent"] for _ in range(3)]
    kept = [each.trace for each in traces.requests]

    assert sent == [f"00-{trace.trace_id:032x}-{trace.forward_id:016x}-01" for trace in kept]
    assert len({trace.trace_id for trace in kept}) == 3
    assert {trace.parent for trace in kept} == {None}


async def test_a_request_of_a_trace(rig: RelayRig) -> None:
    """The model server gets the same trace with our span as its parent, once, and the state of other systems."""
    traces = rig.trace()
    for _ in range(2):  # the second time the head is known already
        asked, _ = await rig.exchange(chat("alpha", CLIENTS, STATE))
        kept = traces.requests.pop()

        assert kept.trace.parent == Parent(7, 8, is_sampled=True)
        assert asked.all("traceparent") == [f"00-{7:032x}-{kept.trace.forward_id:016x}-01"]
        assert asked.all("tracestate") == ["vendor=1"]


@pytest.mark.parametrize("traces", [True, False])
async def test_every_request_has_its_own_trace(rig: RelayRig, traces: bool) -> None:
    """Their heads are recognised all the same, on one connection and on several."""
    kept = rig.trace() if traces else None
    client, asked = await rig.client(), []
    for number in (1, 1, 2, 3, 3):
        await client.send(chat("alpha", f"Traceparent: 00-{number:032x}-{8:016x}-01", STATE))
        call = await rig.alpha.call()
        await call.say(HELLO)
        await client.message()
        asked.append(call.request)
    again, _ = await rig.exchange(chat("alpha", f"Traceparent: 00-{4:032x}-{8:016x}-01", STATE))

    assert [int(each["traceparent"][3:35], 16) for each in [*asked, again]] == [1, 1, 2, 3, 3, 4]
    assert {len(each.all("traceparent")) for each in asked} == {1}
    assert len(rig.relay.context.heads.known._known) == 1
    if kept is None:
        assert {each["traceparent"][36:52] for each in asked} == {f"{8:016x}"}
    else:
        assert [each.trace.trace_id for each in kept.requests] == [1, 1, 2, 3, 3, 4]


@pytest.mark.parametrize("traces", [True, False])
async def test_traces_that_are_not_alike(rig: RelayRig, traces: bool) -> None:
    """One that is missing, empty, invalid, of a later version or there twice is not taken for another one."""
    sent = [[], [CLIENTS], ["traceparent: "], ["traceparent: 00-broken"], [f"traceparent: 00-{0:032x}-{8:016x}-01"]]
    sent += [[CLIENTS.replace(" 00", " cc")], [CLIENTS, CLIENTS.replace("7", "9")], ["traceparent: x", CLIENTS]]
    if traces:
        rig.trace()
    seen: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for fields in [*sent, *reversed(sent), *sent]:
        asked, _ = await rig.exchange(chat("alpha", *fields, STATE))
        values = asked.all("traceparent")
        is_ours = traces and not values[0].startswith(f"00-{7:032x}")
        seen[str(fields)].add((len(values), is_ours, len(asked.all("tracestate"))))

    assert {len(each) for each in seen.values()} == {1}
    if traces:
        goes_on = [str(fields) for fields in sent if fields and f"{7:032x}" in fields[0]]
        assert {fields: each == {(1, False, 1)} for fields, each in seen.items()} == {
            fields: fields in goes_on for fields in seen
        }
    else:
        assert list(seen.values()) == [{(len(fields), False, 1)} for fields in sent]


async def test_a_request_of_a_broken_trace(rig: RelayRig) -> None:
    """It begins a new one, to which the state of the other does not belong."""
    traces = rig.trace()
    asked, _ = await rig.exchange(chat("alpha", "traceparent: 00-broken", STATE))
    kept = traces.requests.pop()

    assert kept.trace.parent is None
    assert asked.all("traceparent") == [f"00-{kept.trace.trace_id:032x}-{kept.trace.forward_id:016x}-01"]
    assert "tracestate" not in asked.names


async def test_a_request_of_a_trace_that_is_not_recorded(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays that way for the model server, nothing is kept, and no reason is asked for."""
    traces = rig.trace()
    monkeypatch.delattr(type(rig.dispatcher.views), "why")
    asked, _ = await rig.exchange(chat("alpha", CLIENTS.replace("-01", "-00")))

    assert asked["traceparent"].startswith(f"00-{7:032x}-")
    assert asked["traceparent"].endswith("-00")
    assert traces.requests == []


async def test_what_is_kept_of_a_request(rig: RelayRig) -> None:
    """Times, status, tokens and path; neither its body nor its query."""
    traces = rig.trace()
    await rig.exchange(chat("alpha"))  # loads it
    ask = post(b'{"model":"alpha","prompt":"hush"}', "Content-Type: application/json", "X-Request-Id: mine-1")
    await rig.exchange(ask.replace(b"/completions ", b"/completions?also=hush "), JSON)
    kept = traces.requests.pop()

    assert (kept.id, kept.model, kept.method, kept.path) == ("mine-1", "alpha", "POST", "/v1/chat/completions")
    assert (kept.status, kept.tokens, kept.reason, kept.key) == (200, Tokens(3, 2, None), "", "")
    assert kept.granted_at is not None
    assert kept.trace.first_token_at is None
    assert kept.began <= kept.granted_at <= kept.ended
    assert kept.steps == ()
    assert "hush" not in repr(kept)


async def test_the_client_of_a_request(open_rig: OpenRig) -> None:
    """The name of its key, never the key or its address."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("hush", name="team"),)))
    traces = rig.trace()
    await rig.exchange(chat("alpha", "Authorization: Bearer hush"))
    kept = traces.requests.pop()

    assert kept.key == "team"
    assert "hush" not in repr(kept)
    assert "127.0.0.1" not in repr(kept)


async def test_a_request_that_waits_for_a_load(rig: RelayRig) -> None:
    """Why it waits when it arrives, what it has waited for, and the steps of the load."""
    traces = rig.trace()
    client = await rig.send(chat("slow"))
    await come_true(lambda: rig.launcher.is_starting("slow"))
    rig.launcher.become_ready("slow")
    await (await rig.upstreams["slow"].call()).say(HELLO)
    await client.message()
    kept = traces.requests.pop()

    assert kept.trace.queued_because.startswith("loading slow: 0 s so far")
    assert kept.reason == "waited for slow to load"
    assert [step.name for step in kept.steps] == ["start"]


async def test_a_client_that_leaves_the_queue(rig: RelayRig) -> None:
    """The reason is why it was still waiting."""
    traces = rig.trace()
    client = await rig.send(chat("slow"))
    await come_true(lambda: rig.launcher.is_starting("slow"))
    client.hang_up()
    await come_true(lambda: traces.requests)
    kept = traces.requests.pop()

    assert (kept.status, kept.granted_at) == (499, None)
    assert kept.reason.startswith("loading slow: ")


async def test_a_load_that_fails(rig: RelayRig) -> None:
    """The request was refused, so it waits for nothing any more; the failed start says why."""
    rig.launcher.broken = ("alpha",)
    traces = rig.trace()
    answered = await rig.refusal(chat("alpha"))
    kept = traces.requests.pop()

    assert (answered.status, kept.status, kept.granted_at, kept.reason) == (503, 503, None, "")
    assert [(step.name, step.has_failed) for step in kept.steps] == [("start", True)]


async def test_a_response_that_breaks(rig: RelayRig) -> None:
    """It failed, and is kept once."""
    traces = rig.trace()
    client, call = await rig.reached(chat("alpha"))
    await call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"hel")[:-5])
    await come_true(lambda: rig.connection().exchange.framer)  # type: ignore[union-attr]
    call.hang_up()
    await come_true(lambda: traces.requests)
    client.hang_up()

    assert [kept.status for kept in traces.requests] == [502]


@pytest.mark.parametrize("begins_at_once", [True, False])
async def test_the_first_token_of_a_stream(rig: RelayRig, begins_at_once: bool) -> None:
    """The time of the first data, which may come long after the head; every byte is relayed."""
    traces = rig.trace()
    whole = chunked(b"data: one\n\n", b"data: two\n\n")
    first, rest = whole[:16], whole[16:]
    client, call = await rig.reached(chat("alpha"))
    await call.say(STREAM + first if begins_at_once else STREAM)
    await come_true(lambda: rig.connection().exchange.framer)  # type: ignore[union-attr]
    await rig.later(10.0)
    began_at = rig.relay.context.now()
    await call.say(rest if begins_at_once else whole)
    answered = await client.message()
    kept = traces.requests.pop()

    assert answered.body == b"data: one\n\ndata: two\n\n"
    assert kept.trace.first_token_at is not None
    assert (kept.trace.first_token_at < began_at) == begins_at_once
    assert kept.trace.first_token_at <= kept.ended


async def test_requests_to_hotseat_itself(rig: RelayRig) -> None:
    """They use no model and are not traced."""
    traces = rig.trace()
    client = await rig.send(get("/hotseat/status"))
    await (await rig.management.call()).say(HELLO)
    await client.message()

    assert traces.requests == []


async def test_a_bug_in_tracing(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the client gets its response."""
    traces = rig.trace()

    def broken(*args: object) -> None:
        raise LookupError("no such trace")

    monkeypatch.setattr(traces, "put", broken)
    monkeypatch.setattr(rig.dispatcher.views, "why", broken)
    _, answered = await rig.exchange(chat("alpha"))

    assert answered.status == 200
    assert "LookupError: no such trace" in caplog.text


async def test_a_request_that_waits_for_a_slot(open_rig: OpenRig) -> None:
    """No load was made for it, so there are no steps."""
    rig = await open_rig(models=(spec("alpha", concurrency_limit=1),))
    traces = rig.trace()
    await rig.exchange(chat("alpha"))
    client, call = await rig.reached(chat("alpha"))
    waiting = await rig.send(chat("alpha"))
    await come_true(lambda: rig.waiting() == 1)
    await call.say(HELLO)
    await client.message()
    await (await rig.alpha.call()).say(HELLO)
    await waiting.message()
    kept = traces.requests.pop()

    assert kept.trace.queued_because.startswith("waiting for a free slot on alpha")
    assert kept.reason == "all slots of alpha were in use"
