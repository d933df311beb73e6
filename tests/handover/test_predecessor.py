"""The old process as the new one sees it: its sockets, its requests, and what servers send through it."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import one_at_a_time
from tests.support.fake_launcher import FakeLauncher
from tests.support.waiting import come_true

from hotseat.catalog.named_models import FleetModel
from hotseat.catalog.spec import Overrides
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import CancelledByOperator, ShuttingDown
from hotseat.handover.channel import Channel, Closed, command_in, receive_first
from hotseat.handover.predecessor import STREAMS, VERSION, OldRequests, Predecessor, Streams, predecessor_in
from hotseat.handover.restarts import RemoteScheduler
from hotseat.handover.stand_in import HANDOVER
from hotseat.identifiers import ClientId, ModelName, TicketId
from hotseat.model_servers.guard_messages import Messages
from hotseat.scheduling.events import (
    FleetModelsChanged,
    HandoverRequested,
    OverridesChanged,
    YieldEnded,
    YieldRequested,
)
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

pytestmark = pytest.mark.anyio
QWEN, LLAMA, ANN = ModelName("qwen"), ModelName("llama"), ClientId("ann")
HERE, OLLAMA, ELSEWHERE = ("127.0.0.1", 8080), ("127.0.0.1", 11434), ("127.0.0.1", 9090)


class OldProcess:
    """The end of the old process, and sockets that it listens at."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.for_clients = socket.create_server(("127.0.0.1", 0))
        self.for_ollama = socket.create_server(("127.0.0.1", 0))

    def says_hello(self, version: int = VERSION, *, by_systemd: bool = False) -> None:
        facts = {"version": version, "sockets": 1, "listen": HERE, "ollama_listen": OLLAMA, "by_systemd": by_systemd}
        fds = [self.for_clients.fileno(), self.for_ollama.fileno()]
        Messages(self.ours).send({"kind": "hello", **facts}, map(os.dup, fds))

    def stops_listening(self) -> None:
        self.for_clients.close()
        self.for_ollama.close()

    def close(self) -> None:
        self.stops_listening()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def old() -> Iterator[OldProcess]:
    old = OldProcess()
    yield old
    old.close()


def is_refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_addresses_stay(old: OldProcess) -> None:
    """The new process listens at the same sockets, so no connection is refused between the two."""
    old.says_hello()
    predecessor = Predecessor(old.theirs)
    address = old.for_clients.getsockname()
    [here], [ollama] = predecessor.sockets_for(HERE), predecessor.sockets_for_ollama(OLLAMA)
    old.stops_listening()

    assert here.getsockname() == address
    assert not is_refused(address)
    here.close()
    ollama.close()


@pytest.mark.parametrize("ollama", [ELSEWHERE, None])
def test_the_addresses_have_changed(old: OldProcess, ollama: tuple[str, int] | None) -> None:
    """The former ones close with the old process: otherwise clients would connect there and never get an answer."""
    old.says_hello()
    predecessor = Predecessor(old.theirs)
    addresses = [old.for_clients.getsockname(), old.for_ollama.getsockname()]

    assert predecessor.sockets_of_systemd() == []
    assert predecessor.sockets_for(ELSEWHERE) == predecessor.sockets_for_ollama(ollama) == []
    old.stops_listening()
    assert [is_refused(address) for address in addresses] == [True, True]


def test_systemd_opened_the_sockets(old: OldProcess) -> None:
    """They are used whatever the configuration says."""
    old.says_hello(by_systemd=True)
    predecessor = Predecessor(old.theirs)
    [sock] = predecessor.sockets_of_systemd()

    assert sock.getsockname() == old.for_clients.getsockname()
    sock.close()
    assert predecessor.sockets_for_ollama(None) == []


def test_another_format(old: OldProcess) -> None:
    """The new process refuses, and the old one is told why."""
    old.says_hello(version=VERSION + 1)
    with pytest.raises(ValueError, match="format 2, and this one reads format 1"):
        Predecessor(old.theirs)

    refusal = receive_first(old.ours, within=5.0)
    assert (refusal.kind, "format 2" in refusal.facts["reason"]) == ("failed", True)


def test_the_variable_is_for_the_new_process_alone(old: OldProcess) -> None:
    """It is removed, so that no model server gets it; without it the start is an ordinary one."""
    old.says_hello()
    environ = {HANDOVER: str(os.dup(old.theirs.fileno())), "HOME": "/"}
    predecessor = predecessor_in(environ)

    assert predecessor is not None
    assert environ == {"HOME": "/"}
    assert predecessor_in(environ) is None
    predecessor._socket.close()


class Client:
    """A connection of the old process."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.error: HotseatError | None = None
        self.upstream: Upstream | None = None

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self.upstream = upstream
        self.outcomes.append("granted")

    def confirmed(self) -> None:
        self.outcomes.append("confirmed")

    def refused(self, error: HotseatError) -> None:
        self.error = error
        self.outcomes.append("refused")

    def cut(self, error: HotseatError) -> None:
        self.error = error
        self.outcomes.append("cut")


class Processes:
    """The old process after the handover, and the new one."""

    def __init__(self, launcher: FakeLauncher) -> None:
        catalog = one_at_a_time("qwen", "llama", patience=0)
        ours, theirs = socket.socketpair()
        self.to_new, self.to_old = Channel(ours), Channel(theirs)
        scheduler = Scheduler(catalog)
        self.old = Dispatcher(scheduler, FakeLauncher(), Journal())
        self.remote = RemoteScheduler(scheduler, self.to_new)
        self.old.follow(self.remote)
        self.new = Dispatcher(Scheduler(catalog), launcher, Journal())
        self.new.tickets.number_from(TicketId(1000))
        self.requests = OldRequests(self.new, self.to_old)
        self.tasks = Tasks()
        self.serving = self.tasks.start(self.requests.serve(), "serve")
        self.tasks.start(self._carry_out(), "carry out")

    async def _carry_out(self) -> None:
        while True:
            try:
                command = command_in(await self.to_new.receive())
            except Closed:
                return
            if command:
                self.remote.note(command)
                self.old.carry_out(command)

    def in_flight(self, model: ModelName = QWEN) -> int:
        """Requests that hold or await a lease, as the new process counts."""
        return self.new.questions.requests(model)


@asynccontextmanager
async def handed_over(launcher: FakeLauncher | None = None) -> AsyncIterator[Processes]:
    processes = Processes(launcher or FakeLauncher())
    try:
        yield processes
    finally:
        processes.to_new.close()
        await processes.serving  # gives all tickets back
        await processes.new.shut_down(within=0)
        await processes.tasks.aclose()


async def test_a_request_from_arrival_to_its_end() -> None:
    """The new process counts it like one of its own, with a number of its own."""
    async with handed_over() as processes:
        client = Client()
        ticket = processes.old.ask(QWEN, ANN, client)
        await come_true(lambda: client.outcomes == ["granted"])
        server = processes.new.questions.ready_server(QWEN)
        assert server is not None
        assert client.upstream == server
        assert processes.in_flight() == 1
        processes.old.leave(ticket, is_answered=True)
        processes.old.leave(ticket)

        await come_true(lambda: processes.in_flight() == 0)


async def test_the_old_process_dies() -> None:
    """All its tickets are given back, so that models can be unloaded."""
    async with handed_over() as processes:
        clients = [Client() for _ in range(3)]
        for client in clients:
            processes.old.ask(QWEN, ANN, client)
        waiting = Client()
        processes.old.ask(LLAMA, ANN, waiting)
        await come_true(lambda: all(client.outcomes for client in clients))
        await come_true(lambda: processes.in_flight(LLAMA) == 1)
        processes.to_new.close()
        await processes.serving

        assert processes.in_flight() == processes.in_flight(LLAMA) == 0
        await processes.requests.left()


async def test_the_old_process_hangs_when_its_servers_were_taken(caplog: pytest.LogCaptureFixture) -> None:
    """The new one goes on without waiting for it any longer, and says so."""
    async with handed_over() as processes:
        await processes.requests.left(within=0.1)

        assert "the previous process does not leave" in caplog.text
        assert not processes.serving.done()


async def test_an_operator_waits_in_the_old_process() -> None:
    """For a load and for an unload: both are confirmed."""
    async with handed_over() as processes:
        await processes.old.operator.load(QWEN)
        assert processes.new.questions.is_running(QWEN)
        await processes.old.operator.unload(QWEN)

        assert not processes.new.questions.is_running(QWEN)


async def test_a_request_is_cut() -> None:
    """The client of the old process sees why."""
    async with handed_over() as processes:
        client = Client()
        processes.old.ask(QWEN, ANN, client)
        await come_true(lambda: client.outcomes == ["granted"])
        Tasks().start(processes.new.operator.unload(QWEN, force=True), "unload")

        await come_true(lambda: client.outcomes == ["granted", "cut"])


async def test_an_operator_cancels_a_waiting_request_in_the_new_process() -> None:
    """It leaves the queue there too: otherwise it would be granted to nobody, and hold its model for ever."""
    async with handed_over(FakeLauncher(slow=("qwen",))) as processes:
        client = Client()
        processes.old.ask(QWEN, ANN, client)
        await come_true(lambda: processes.in_flight() == 1)
        processes.new.operator.cancel(TicketId(1000))
        await come_true(lambda: client.outcomes == ["refused"])

        assert isinstance(client.error, CancelledByOperator)
        await come_true(lambda: processes.in_flight() == 0)


async def test_a_message_that_cannot_be_understood() -> None:
    """It is logged, and the requests of the old process keep their leases."""
    async with handed_over() as processes:
        client = Client()
        ticket = processes.old.ask(QWEN, ANN, client)
        await come_true(lambda: client.outcomes == ["granted"])
        processes.to_new.send("RequestArrived", colour="green")
        processes.to_new.send("weather", temperature=21)
        processes.to_new.send("RequestLeft", ticket=4711, is_answered=False)
        processes.to_new.send("left")
        await processes.requests.left()

        assert not processes.serving.done()
        assert processes.in_flight() == 1
        processes.old.leave(ticket)


async def test_requests_that_were_handed_over_keep_their_numbers() -> None:
    """The new process numbers its own from above; a later request of the old one cannot collide with them."""
    async with handed_over() as processes:
        processes.requests.keep(TicketId(7))
        client = Client()
        assert processes.new.tickets.enter(client) == 1000
        processes.old.tickets.number_from(TicketId(1000))
        assert processes.old.ask(QWEN, ANN, client) == 1000
        await come_true(lambda: client.outcomes == ["granted"])

        assert processes.in_flight() == 1


async def test_the_new_process_dies() -> None:
    """What waits in the old one is refused, and so is what comes later; leases go on."""
    async with handed_over(FakeLauncher(slow=("llama",))) as processes:
        user, waiting, later = Client(), Client(), Client()
        processes.old.ask(QWEN, ANN, user)
        await come_true(lambda: user.outcomes == ["granted"])
        processes.old.ask(LLAMA, ANN, waiting)
        for command in processes.remote.refuse_all(ShuttingDown("over")):
            processes.old.carry_out(command)
        processes.old.ask(QWEN, ANN, later)

        assert (user.outcomes, waiting.outcomes, later.outcomes) == (["granted"], ["refused"], ["refused"])


async def test_an_operator_who_changes_something_in_the_old_process() -> None:
    """The new process gets it, and so does whoever asks the old one; programs the new one finds itself."""
    async with handed_over() as processes:
        processes.old.tell(YieldRequested("training"))
        await come_true(lambda: processes.new.questions.yields)
        processes.old.tell(YieldRequested("a game", for_program=True))
        processes.old.tell(FleetModelsChanged({"far": FleetModel(ModelName("far"))}))
        processes.old.tell(OverridesChanged(QWEN, pinned=True))
        processes.old.tell(YieldEnded())
        await come_true(lambda: not processes.new.questions.yields)
        for dispatcher in (processes.old, processes.new):
            assert dispatcher.catalog.overrides == {QWEN: Overrides(pinned=True)}
        assert [*processes.old.catalog.fleet_models] == ["far"]

        assert [*processes.old.questions.yields] == [True]


async def test_what_is_asked_in_the_old_process_about_later_requests() -> None:
    """Which of its requests wait it knows; whether a server still runs it does not know."""
    async with handed_over(FakeLauncher(slow=("llama",))) as processes:
        user, waiting = Client(), Client()
        used = processes.old.ask(QWEN, ANN, user)
        await come_true(lambda: user.outcomes == ["granted"])
        waits = processes.old.ask(LLAMA, ANN, waiting)

        assert processes.old.questions.waits_for(used) is None
        assert processes.old.questions.waits_for(waits) == LLAMA
        assert processes.old.questions.ready_server(QWEN) is None
        processes.old.operator.cancel(waits)
        assert waiting.outcomes == ["refused"]


async def test_an_operator_waits_for_an_unload_that_was_postponed() -> None:
    """It was not begun when the servers were handed over: if the new process dies, the operator gets an answer too."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    scheduler = Scheduler(one_at_a_time("qwen"))
    dispatcher = Dispatcher(scheduler, FakeLauncher(), Journal())
    await dispatcher.operator.load(QWEN)
    dispatcher.tell(HandoverRequested())
    unloading = Tasks().start(answer_to(dispatcher.operator.unload(QWEN)), "unload")
    await come_true(lambda: scheduler._state.postponed)
    remote = RemoteScheduler(scheduler, channel)
    dispatcher.follow(remote)
    for command in remote.refuse_all(ShuttingDown("over")):
        dispatcher.carry_out(command)

    assert isinstance(await unloading, ShuttingDown)
    channel.close()
    theirs.close()


async def answer_to(work: object) -> object:
    try:
        return await work  # type: ignore[misc]
    except ShuttingDown as refused:
        return refused


async def test_requests_pass_through_a_process_in_between() -> None:
    """It was replaced itself: events and decisions go on to the newest process and back."""
    async with handed_over() as first, handed_over() as second:
        second.old, first.new = first.new, second.old  # the middle one is the new process of `first`
        middle = Dispatcher(Scheduler(one_at_a_time("qwen")), FakeLauncher(), Journal())
        middle.follow(second.remote)
        first.requests._dispatcher = second.old = middle
        client = Client()
        ticket = first.old.ask(QWEN, ANN, client)
        await come_true(lambda: client.outcomes == ["granted"])
        assert second.new.questions.requests(QWEN) == 1
        first.old.leave(ticket)

        await come_true(lambda: second.new.questions.requests(QWEN) == 0)
        await asyncio.sleep(0)


class Process:
    """What a process has received of its own model servers."""

    def __init__(self) -> None:
        self.pieces: dict[ModelName, list[object]] = {}
        self.streams = Streams(lambda model: [*self.pieces.get(model, [])], lambda: [*self.pieces])


@asynccontextmanager
async def replaced(old: Process) -> AsyncIterator[Channel]:
    """The channel of the new process, to which the old one reports."""
    ours, theirs = map(Channel, socket.socketpair())
    tasks = Tasks()
    tasks.start(old.streams.report(ours, every_s=0.002), "report")
    yield theirs
    await tasks.aclose()
    ours.close()
    theirs.close()


async def test_each_new_piece_is_reported() -> None:
    """A server that sends nothing more is not mentioned again."""
    old, new = Process(), Process()
    old.pieces = {QWEN: [object()], LLAMA: []}
    async with replaced(old) as channel:
        first = await channel.receive()
        old.pieces[LLAMA] = [object()]
        second = await channel.receive()

    assert [(each.kind, each.facts) for each in (first, second)] == [
        (STREAMS, {"model": QWEN}),
        (STREAMS, {"model": LLAMA}),
    ]
    new.streams.note(QWEN)
    before = new.streams.last_pieces(QWEN)
    assert before == new.streams.last_pieces(QWEN)
    new.streams.note(QWEN)
    assert before != new.streams.last_pieces(QWEN)
    assert new.streams.last_pieces(LLAMA) == []


async def test_reports_pass_through_a_process_in_between() -> None:
    """It was replaced, too, and has no stream of the model itself."""
    between = Process()
    async with replaced(between) as channel:
        between.streams.note(QWEN)
        passed_on = await channel.receive()

    assert passed_on.facts == {"model": QWEN}
