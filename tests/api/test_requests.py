"""Requests in progress, recent requests, and how an operator ends one."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.support.waiting import come_true

from hotseat.activity.recent import InProgress, Tokens
from hotseat.activity.usage import HELD
from hotseat.api.routes.requests import path_of
from hotseat.dispatch.tickets import OPERATOR
from hotseat.identifiers import ClientId, HostName, ModelName, TicketId
from hotseat.relay.http.request_head import read_head
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from tests.support.management import Management

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

ALPHA, SOMEONE = ModelName("alpha"), ClientId("someone")


class FakeWaiter:
    """Writes down how it was ended."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def granted(self, upstream: Upstream, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None:
        self.outcomes.append(f"refused: {error.message}")

    def cut(self, error: HotseatError) -> None:
        self.outcomes.append(f"cut: {error}")


async def test_what_ended_is_listed_without_its_query(rig: Management) -> None:
    """A finished request has its times and tokens, but not its query, which may contain a key."""
    head = read_head(b"POST", b"/v1/chat/completions?key=hush", "1.1", [(b"Host", b"box")])
    rig.activity.finished(ALPHA, 200, 0.5, 0.75, 1.5, SOMEONE, head, b"box-7", Tokens(4, 3, None, 2), "waited")
    answer = await rig.get("/hotseat/requests")

    [ended] = answer.json()["finished"]
    assert (ended["n"], ended["model"], ended["client"], ended["status"]) == (1, "alpha", "someone", 200)
    assert (ended["id"], ended["why"]) == ("box-7", "waited")
    assert (ended["prompt_tokens"], ended["completion_tokens"], ended["tokens_per_s"]) == (4, 3, 3.0)
    assert ended["cached_tokens"] == 2
    assert (ended["method"], ended["path"]) == ("POST", "/v1/chat/completions")
    assert (ended["waited_s"], ended["first_byte_s"], ended["seconds"]) == (0.5, 0.75, 1.5)
    assert "hush" not in answer.text


async def test_only_news_is_sent_to_who_asks_for_news(rig: Management) -> None:
    """With `after`, only requests with a higher number are listed."""
    head = read_head(b"GET", b"/slots", "1.1", [(b"Host", b"box")])
    for _ in range(3):
        rig.activity.finished(ALPHA, 200, 0.0, None, 0.0, SOMEONE, head, b"box-7")
    news = (await rig.get("/hotseat/requests?after=2")).json()

    assert [ended["n"] for ended in news["finished"]] == [3]


async def test_what_is_in_progress_says_how_far_it_is(rig: Management) -> None:
    """A request in progress is waiting, sent or answering, here or at another host; its path has no query."""
    known = {
        "id": b"box-7",
        "model": ALPHA,
        "client": SOMEONE,
        "method": b"POST",
        "target": b"/x?y",
        "waited_s": 1.0,
        "seconds": 2.0,
    }
    rig.in_progress = [
        InProgress(ticket=TicketId(1), first_byte_s=None, is_waiting=True, **known),  # type: ignore[arg-type]  # mixed on purpose
        InProgress(ticket=TicketId(2), first_byte_s=None, is_waiting=False, **known),  # type: ignore[arg-type]
        InProgress(ticket=TicketId(3), first_byte_s=1.5, is_waiting=False, host=HostName("gpu2"), **known),  # type: ignore[arg-type]
    ]
    body = (await rig.get("/hotseat/requests")).json()

    assert [request["state"] for request in body["in_progress"]] == ["waiting", "sent", "answering"]
    assert [request["host"] for request in body["in_progress"]] == [None, None, "gpu2"]
    assert body["in_progress"][0]["path"] == "/x"


async def test_a_request_that_waits_is_refused(rig: Management) -> None:
    """A cancelled waiting request gets an error with the reason and leaves the queue."""
    waiter = FakeWaiter()
    ticket = rig.dispatcher.ask(ModelName("slow"), SOMEONE, waiter)
    answer = await rig.delete(f"/hotseat/requests/{ticket}")
    rig.dispatcher.leave(ticket)

    assert answer.json() == {"status": "ok", "message": f"ticket {ticket} was cancelled"}
    assert waiter.outcomes == ["refused: an operator cancelled this request while it was waiting"]
    assert (await rig.get("/hotseat/queue")).json()["waiting"] == []


async def test_a_request_in_flight_is_cut(rig: Management) -> None:
    """A cancelled request in flight is cut with the reason."""
    await rig.get("/upstream/alpha/load")
    waiter = FakeWaiter()
    ticket = rig.dispatcher.ask(ALPHA, SOMEONE, waiter)
    await rig.delete(f"/hotseat/requests/{ticket}")
    rig.dispatcher.leave(ticket)

    assert waiter.outcomes == ["cut: an operator cancelled this request"]


async def test_a_load_that_waits_can_be_ended_too(rig: Management) -> None:
    """A waiting load can be cancelled like a request, and gets 503 with the reason."""
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.dispatcher.views.current().queue)
        [waiting] = rig.dispatcher.views.current().queue
        await rig.delete(f"/hotseat/requests/{waiting.ticket}")

    assert waiting.client == OPERATOR
    assert loading.result().status_code == 503
    assert "cancelled this request" in loading.result().json()["error"]


async def test_a_key_ends_requests_of_its_own_models_only(rig: Management) -> None:
    """A key with a list of models gets 403 for requests of other models and for unknown tickets."""
    rig.accounts.open([ApiKey("sesame", Role.OPERATE, models=("alpha",))])
    as_holder = {HELD: sha256(b"sesame").hexdigest()}
    waiters = {model: FakeWaiter() for model in ("slow", "alpha")}
    tickets = {model: rig.dispatcher.ask(ModelName(model), SOMEONE, waiter) for model, waiter in waiters.items()}
    answers = [
        await rig.client.delete(f"/hotseat/requests/{ticket}", headers=as_holder)
        for ticket in (*tickets.values(), 4711)
    ]
    for ticket in tickets.values():
        rig.dispatcher.leave(ticket)

    assert [answer.status_code for answer in answers] == [403, 200, 403]
    assert waiters["slow"].outcomes == []


async def test_a_key_ends_forwarded_requests_of_its_own_models_only(rig: Management) -> None:
    """The scheduler does not know which model such a ticket is for; the list of requests does."""
    rig.accounts.open([ApiKey("sesame", Role.OPERATE, models=("near",))])
    as_holder = {HELD: sha256(b"sesame").hexdigest()}
    waiters = {model: FakeWaiter() for model in ("far", "near")}
    tickets = {model: rig.dispatcher.tickets.enter(waiter) for model, waiter in waiters.items()}
    rig.in_progress = [forwarded(ticket, model) for model, ticket in tickets.items()]
    answers = [await rig.client.delete(f"/hotseat/requests/{ticket}", headers=as_holder) for ticket in tickets.values()]

    assert [answer.status_code for answer in answers] == [403, 200]
    assert {model: waiter.outcomes for model, waiter in waiters.items()} == {
        "far": [],
        "near": ["cut: an operator cancelled this request"],
    }


def forwarded(ticket: TicketId, model: str) -> InProgress:
    times = {"waited_s": 0.0, "first_byte_s": None, "seconds": 1.0, "is_waiting": False}
    known = {"id": b"box-7", "client": SOMEONE, "method": b"POST", "target": b"/x", **times}
    return InProgress(ticket=ticket, model=ModelName(model), host=HostName("gpu2"), **known)  # type: ignore[arg-type]


async def test_a_ticket_that_is_gone_cannot_be_ended(rig: Management) -> None:
    """An unknown ticket is 404, and the error names the route that lists requests."""
    answer = await rig.delete("/hotseat/requests/4711")

    assert answer.status_code == 404
    assert "GET /hotseat/requests" in answer.json()["error"]


def test_a_path_ends_before_its_query() -> None:
    """The path ends at the first question mark; bytes that are not ASCII are shown as Latin-1."""
    assert path_of(b"/a/b\xff?c=d?e") == "/a/bÿ"
