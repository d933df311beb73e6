"""Running processes pass from one hotseat process to another, by an offer or after a crash; nobody else gets them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from tests.support.guard_owner import GuardOwner, open_guard
from tests.support.ports import free_port
from tests.support.processes import adopted_are_gone, command_line, environment
from tests.support.supervisor_rig import GUARD_INTERPRETER, PYTHON, command_for, is_alive
from tests.support.waiting import come_true, eventually

from hotseat.model_servers.descendants import Register, start_of
from hotseat.model_servers.guard_client import Guard
from hotseat.model_servers.guard_end import GUARDS
from hotseat.model_servers.guard_grace import GuardGrace, connect
from hotseat.model_servers.guard_link import CannotTake
from hotseat.model_servers.guard_listener import Listener
from hotseat.model_servers.guard_messages import VERSION, Messages, close_each
from hotseat.model_servers.guard_ownership import HAS_OWNER, Orphaned
from hotseat.model_servers.guard_process import GuardServer
from hotseat.model_servers.guarded_process import Order, PipeEnds
from hotseat.model_servers.os_processes import children
from hotseat.model_servers.output import Output, Pipe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from hotseat.model_servers.guarded_process import GuardedProcess, TakenProcess

pytestmark = pytest.mark.usefixtures("counted_guard")

SLEEP, SHELL = shutil.which("sleep") or "", shutil.which("sh") or ""
FOR_EVER = Order(SLEEP, ("sleep", "1000"), {})
LINE = 16
CHATTY = (
    *PYTHON,
    "-c",
    """if True:
    import itertools, os, signal, sys
    ends = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
    for first in itertools.count(0, 256):
        os.write(1, b"".join(b"%015d\\n" % number for number in range(first, first + 256)))
        if ends:
            sys.exit()
    """,
)
"""Writes numbered lines of 16 bytes as fast as it can, until it is asked to end."""
OTHER_USER = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the kernel allows a socket 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="hotseat-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def former(nobody_is_left: None) -> AsyncIterator[Guard]:
    """A hotseat process that will hand over; its guard is our child, whoever has it at the end."""
    before = {*GUARDS}
    guard = await open_guard()
    yield guard
    await guard.aclose()
    for pid in {*GUARDS} - before:
        await asyncio.to_thread(GUARDS.pop(pid).wait)


@pytest.fixture
def start_owner(nobody_is_left: None, folder: Path) -> Iterator[Callable[..., GuardOwner]]:
    started = []

    def build(*programs: tuple[str, ...], grace_s: float = 0.0) -> GuardOwner:
        started.append(GuardOwner(folder, *programs, grace_s=grace_s))
        return started[-1]

    yield build

    for each in started:
        each.kill()
    eventually(adopted_are_gone)


def nowhere() -> PipeEnds:
    return PipeEnds(os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_RDONLY))


async def take(former: Guard) -> tuple[Guard, list[TakenProcess]]:
    return await take_with(Guard(GUARD_INTERPRETER), former.offer())


async def take_with(guard: Guard, connection: socket.socket) -> tuple[Guard, list[TakenProcess]]:
    return guard, await guard.take(connection)


async def ready_to_take(folder: Path) -> socket.socket:
    return await come_true(lambda: connect(folder / "guard"))


async def take_orphans(folder: Path, grace: GuardGrace | None = None) -> tuple[Guard, list[TakenProcess]]:
    return await take_with(Guard(GUARD_INTERPRETER, str(folder), grace), await ready_to_take(folder))


def forget(taken: list[TakenProcess]) -> None:
    close_each(each.output for each in taken)


async def chatting(guard: Guard, pieces: list[bytes]) -> GuardedProcess:
    pipe = Pipe(Output(pieces.append))
    process = await guard.spawn(Order(CHATTY[0], CHATTY, {}), pipe.ends())
    process.when_taken(pipe.leave)
    return process


# By an offer


async def test_a_server_that_keeps_writing_is_handed_over(former: Guard) -> None:
    """It is the same process, it is never blocked, and each byte reaches exactly one of the two owners."""
    earlier: list[bytes] = []
    later: list[bytes] = []
    process = await chatting(former, earlier)
    await come_true(lambda: earlier)
    successor, (taken,) = await take(former)
    pipe = Pipe(Output(later.append), taken.output)
    await come_true(lambda: sum(map(len, later)) > 1 << 20)
    taken.process.signal(signal.SIGTERM)
    status = await taken.process.gone
    pipe.close()
    await successor.aclose()

    numbers = [int(line) for line in b"".join(earlier + later).split()]
    assert taken.process.pid == process.pid
    assert status == 0
    assert sorted(numbers) == list(range(len(numbers)))
    assert len(numbers) * LINE == sum(map(len, earlier + later))
    assert not process.gone.done()


async def test_what_was_described_is_handed_over(former: Guard) -> None:
    """With the last description, the command, the marker and the time at which it began."""
    process = await former.spawn(FOR_EVER, nowhere())
    process.describe({"state": "old"})
    process.describe({"state": "new"})
    successor, (taken,) = await take(former)
    began = start_of(process.pid)
    await successor.aclose()
    forget([taken])

    assert (taken.description, taken.process.argv, taken.process.marker) == (
        {"state": "new"},
        FOR_EVER.argv,
        process.marker,
    )
    assert taken.process.started == began
    assert not successor.was_orphaned


async def test_the_former_owner_is_not_obeyed(former: Guard) -> None:
    """Neither what it signals nor its end matters to the processes, and it starts no others."""
    process = await former.spawn(FOR_EVER, nowhere())
    successor, taken = await take(former)
    await former.taken
    process.signal(signal.SIGKILL)
    await former.aclose()
    another = await successor.spawn(FOR_EVER, nowhere())
    with pytest.raises(ConnectionAbortedError):
        await former.spawn(FOR_EVER, nowhere())

    assert is_alive(process.pid)
    assert not process.gone.done()
    assert another.marker != process.marker
    await successor.aclose()
    assert not is_alive(process.pid)
    assert not is_alive(another.pid)
    forget(taken)


async def test_a_withdrawn_offer_cannot_be_taken(former: Guard) -> None:
    """The owner goes on as if it had never offered anything."""
    connection = former.offer()
    is_still_owner = await former.withdraw()
    with pytest.raises(CannotTake):
        await Guard().take(connection)

    assert is_still_owner
    assert not former.taken.done()
    assert is_alive((await former.spawn(FOR_EVER, nowhere())).pid)


async def test_an_offer_that_was_taken_cannot_be_withdrawn(former: Guard) -> None:
    """The owner learns that it is none any more, also if it has not yet read so."""
    successor, _ = await take(former)

    assert not await former.withdraw()
    assert former.taken.done()
    assert not await former.withdraw()
    await successor.aclose()


async def test_a_candidate_dies_before_it_takes(former: Guard) -> None:
    """The owner stays the owner, and can offer again."""
    process = await former.spawn(FOR_EVER, nowhere())
    former.offer().close()
    is_still_owner = await former.withdraw()
    successor, taken = await take(former)

    assert is_still_owner
    assert [each.process.pid for each in taken] == [process.pid]
    await successor.aclose()
    forget(taken)


async def test_a_second_offer_replaces_the_first(former: Guard) -> None:
    """At most one process can take the servers."""
    first, second = former.offer(), former.offer()
    with pytest.raises(CannotTake):
        await Guard().take(first)
    successor, _ = await take_with(Guard(GUARD_INTERPRETER), second)

    await former.taken
    await successor.aclose()


@pytest.mark.parametrize("version", [VERSION + 1, None, "1"])
async def test_a_candidate_of_an_unknown_version_is_refused(former: Guard, version: object) -> None:
    """It is given the reason and the guard's version, and the owner stays the owner."""
    candidate = Messages(former.offer())
    candidate.send({"do": "take", "version": version, "unknown": [1]})
    (refusal,) = await come_true(candidate.receive)

    assert (refusal.content["fact"], refusal.content["version"]) == ("refused", VERSION)
    assert f"version {VERSION} of the protocol, not {version}" in refusal.content["reason"]
    assert await former.withdraw()
    candidate.close()


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b'{"do": "take", "fds": "x"}\n'])
async def test_a_candidate_that_sends_nonsense_is_closed(former: Guard, line: bytes) -> None:
    """The guard and its owner do not mind."""
    candidate = former.offer()
    candidate.sendall(line)
    answer = await asyncio.to_thread(candidate.recv, 1)
    candidate.close()

    assert answer == b""
    assert is_alive((await former.spawn(FOR_EVER, nowhere())).pid)


async def test_only_the_owner_is_obeyed(former: Guard) -> None:
    """A candidate can do nothing but take."""
    process = await former.spawn(FOR_EVER, nowhere())
    candidate = Messages(former.offer())
    candidate.send({"do": "signal", "n": process.n, "signal": signal.SIGKILL})
    candidate.send({"do": "end_all"})
    candidate.send({"do": "offer"}, [os.open(os.devnull, os.O_RDONLY)])
    candidate.send({"do": "take", "version": 0})
    (refusal,) = await come_true(candidate.receive)

    assert refusal.content["fact"] == "refused"
    assert is_alive(process.pid)
    candidate.close()


async def test_an_owner_of_another_version_may_say_more(former: Guard) -> None:
    """What the guard does not know is ignored."""
    link = former._link
    assert link
    link.send({"do": "dance", "n": 7}, [os.open(os.devnull, os.O_RDONLY)])
    process = await former.spawn(FOR_EVER, nowhere())
    link._learn({"fact": "sunshine", "unknown": True}, [])

    assert is_alive(process.pid)


async def test_three_hundred_processes_are_handed_over(former: Guard) -> None:
    """The kernel passes 253 descriptors with a message at most."""
    guarded = await asyncio.gather(*(former.spawn(FOR_EVER, pipe_ends()) for _ in range(300)))
    successor, taken = await take(former)
    are_pipes = [stat.S_ISFIFO(os.fstat(each.output).st_mode) for each in taken]
    await successor.aclose()
    forget(taken)

    assert [each.process.pid for each in taken] == [process.pid for process in guarded]
    assert are_pipes == [True] * 300
    assert not any(is_alive(process.pid) for process in guarded)


def pipe_ends() -> PipeEnds:
    read_end, write_end = os.pipe()
    return PipeEnds(write_end, read_end)


async def test_the_guard_ends_a_process_for_its_new_owner(former: Guard, folder: Path) -> None:
    """With the stop command that it was given at the start, which the new owner need not know."""
    note = folder / "note"
    stop = (SHELL, "sh", "-c", f"echo stopped > {note}; kill -9 ${{PID}}")
    is_deaf = folder / "deaf"
    ignores = ("sh", "-c", f"trap '' TERM; echo > {is_deaf}; sleep 1000 & wait")
    stubborn = Order(SHELL, ignores, {}, unload_timeout_s=0.2)
    await former.spawn(Order(SLEEP, ("sleep", "1000"), {}, stop), nowhere())
    await former.spawn(stubborn, nowhere())
    await come_true(is_deaf.exists)
    successor, taken = await take(former)
    for each in taken:
        each.process.ask_guard_to_end()
        each.process.ask_guard_to_end()
    statuses = [await each.process.gone for each in taken]
    await successor.aclose()
    forget(taken)

    assert statuses == [signal.SIGKILL, signal.SIGKILL]
    assert note.read_text() == "stopped\n"


# After a crash


def test_without_a_grace_nothing_is_left_of_a_killed_owner(start_owner: Callable[..., GuardOwner]) -> None:
    """The guard ends everything at once, as nobody can ask for it."""
    owner = start_owner(FOR_EVER_ARGV)
    owner.kill()

    eventually(lambda: not start_of(owner.pids[0]))


FOR_EVER_ARGV = (SLEEP, "1000")


async def test_a_killed_owner_leaves_its_processes_to_the_next(
    start_owner: Callable[..., GuardOwner], folder: Path
) -> None:
    """Within the grace they run on, and the next one takes them."""
    owner = start_owner(FOR_EVER_ARGV, grace_s=60.0)
    owner.kill()
    successor, (taken,) = await take_orphans(folder)

    assert successor.was_orphaned
    assert (taken.process.pid, successor.pid) == (owner.pids[0], owner.guard)
    assert taken.description == {"program": "1000"}
    taken.process.signal(signal.SIGTERM)
    assert await taken.process.gone == signal.SIGTERM
    await successor.aclose()
    forget([taken])
    assert start_of(owner.guard) is None


async def test_what_nobody_takes_is_ended(start_owner: Callable[..., GuardOwner], folder: Path) -> None:
    """When the grace is over; then nobody listens any more."""
    owner = start_owner(FOR_EVER_ARGV, grace_s=0.2)
    owner.kill()

    await come_true(lambda: start_of(owner.pids[0]) is None and start_of(owner.guard) is None)
    assert connect(folder / "guard") is None
    assert not (folder / "guard").exists()


async def test_a_second_grace_begins_with_the_second_crash(
    start_owner: Callable[..., GuardOwner], folder: Path
) -> None:
    """The new owner's grace counts, and it may have none."""
    owner = start_owner(FOR_EVER_ARGV, grace_s=60.0)
    owner.kill()
    second, taken = await take_orphans(folder, GuardGrace(60.0, folder / "guard"))
    forget(taken)
    assert second._link
    second._link.hang_up()
    third, taken = await take_orphans(folder)
    forget(taken)
    is_open = (folder / "guard").exists()
    is_there = bool(start_of(owner.pids[0]))
    assert third._link
    third._link.hang_up()

    assert is_there
    await come_true(lambda: start_of(owner.pids[0]) is None and start_of(owner.guard) is None)
    assert not (is_open and (folder / "guard").exists())


async def test_an_orphan_that_writes_is_not_blocked(start_owner: Callable[..., GuardOwner], folder: Path) -> None:
    """The guard drops the oldest output, and the next owner reads the newest."""
    owner = start_owner(CHATTY, grace_s=60.0)
    owner.kill()
    written_before = written_by(owner.pids[0])
    await come_true(lambda: written_by(owner.pids[0]) > written_before + (4 << 20))
    successor, (taken,) = await take_orphans(folder)
    pieces: list[bytes] = []
    pipe = Pipe(Output(pieces.append), taken.output)
    taken.process.signal(signal.SIGTERM)
    await taken.process.gone
    pipe.close()
    await successor.aclose()

    numbers = [int(line) for line in b"".join(pieces).split()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] > 0


def written_by(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/io").read_text().splitlines() if line.startswith("wchar")]
    return int(line.split()[1])


async def test_a_second_hotseat_takes_nothing_while_the_first_lives(
    start_owner: Callable[..., GuardOwner], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The guard answers why, which is no loss of a guard."""
    owner = start_owner(FOR_EVER_ARGV, grace_s=60.0)
    with pytest.raises(CannotTake, match=HAS_OWNER):
        await take_orphans(folder)

    assert start_of(owner.pids[0])
    assert caplog.text == ""
    (folder / "guard").unlink()  # so that nothing is kept at the end


async def test_a_hotseat_that_is_refused_uses_a_guard_of_its_own(former: Guard) -> None:
    """What it starts afterwards runs, and ends with it."""
    connection, refused = former.offer(), Guard(GUARD_INTERPRETER)
    await former.withdraw()
    with pytest.raises(CannotTake):
        await refused.take(connection)
    refused.start()
    process = await refused.spawn(Order(FOR_EVER_ARGV[0], FOR_EVER_ARGV, {}), nowhere())
    await refused.aclose()

    assert not start_of(process.pid)
    assert await former.withdraw()


def test_an_owner_dies_while_the_guard_accepts_the_next(folder: Path) -> None:
    """It was dead before the next one connected, so the guard must know that before it answers."""
    owner, guards = socket.socketpair()
    listening = GuardGrace(60.0, folder / "guard").listen()
    assert listening
    keep = {"do": "keep", "grace_s": 60.0, "path": str(folder / "guard"), "inode": listening.inode}
    Messages(owner).send(keep, [listening.listener.detach()])
    accept = Listener.accept
    candidates: list[socket.socket | None] = []

    def accept_late(listener: Listener) -> socket.socket | None:
        if not candidates:
            owner.close()
            candidates.append(connect(folder / "guard"))
        return accept(listener)

    server = GuardServer(guards, Register(""))
    with patch.object(Listener, "accept", accept_late):
        server._read_all()
    signal.set_wakeup_fd(-1)

    assert isinstance(server._ownership.state, Orphaned)
    assert server._ownership.state.candidate is not None
    server._hang_up()
    assert candidates[0]
    candidates[0].close()


async def test_an_orphan_that_cannot_be_reached_any_more_ends(
    start_owner: Callable[..., GuardOwner], folder: Path
) -> None:
    """The next hotseat has not taken it, and listens under the same name: it needs the memory."""
    owner = start_owner(FOR_EVER_ARGV, grace_s=60.0)
    owner.kill()
    (await ready_to_take(folder)).close()
    following = await open_guard(str(folder), GuardGrace(60.0, folder / "guard"))

    await come_true(lambda: start_of(owner.pids[0]) is None)
    await following.aclose()
    assert not (folder / "guard").exists()


async def test_a_hotseat_that_is_stopped_leaves_nothing_in_spite_of_its_grace(
    folder: Path, nobody_is_left: None
) -> None:
    """Only a crash leaves servers to the next one."""
    guard = await open_guard(str(folder), GuardGrace(60.0, folder / "guard"))
    process = await guard.spawn(FOR_EVER, nowhere())
    mode = stat.S_IMODE((folder / "guard").stat().st_mode)
    await guard.aclose()

    assert mode == 0o600
    assert not is_alive(process.pid)
    assert list(folder.iterdir()) == []


async def test_a_grace_can_be_changed_while_it_runs(folder: Path, nobody_is_left: None) -> None:
    """A reload of the configuration needs no new guard."""
    guard = await open_guard()
    guard.keep_for(GuardGrace(60.0, folder / "guard"))
    with pytest.raises(CannotTake, match=HAS_OWNER):
        await take_orphans(folder)
    guard.keep_for(None)

    await come_true(lambda: not (folder / "guard").exists())
    await guard.aclose()


@pytest.mark.parametrize("problem", ["open to others", "too long"])
async def test_without_a_private_socket_nothing_is_kept(
    folder: Path, nobody_is_left: None, caplog: pytest.LogCaptureFixture, problem: str
) -> None:
    """hotseat says so and starts anyway."""
    folder.chmod(0o755 if problem == "open to others" else 0o700)
    name = "guard" if problem == "open to others" else "g" * 120
    guard = await open_guard("", GuardGrace(60.0, folder / name))
    process = await guard.spawn(FOR_EVER, nowhere())
    assert guard._link
    guard._link.hang_up()

    await come_true(lambda: start_of(process.pid) is None)
    assert "model servers are not kept after a crash" in caplog.text
    await guard.aclose()


KNOCK = f"""
import os, socket, sys
os.setuid(int(sys.argv[2]))
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
try:
    connection.sendall(b'{{"do": "take", "version": {VERSION}}}\\n')
    answer = connection.recv(1 << 16)
except ConnectionError:
    answer = b""
print("answered" if answer else "hung up")
"""


def test_another_user_takes_nothing(start_owner: Callable[..., GuardOwner], folder: Path) -> None:
    """Even if the folder and the socket let everybody in, the guard asks the kernel who it is."""
    start_owner(FOR_EVER_ARGV, grace_s=60.0).kill()
    folder.chmod(0o711)
    (folder / "guard").chmod(0o666)
    is_root = os.geteuid() == 0
    user = OTHER_USER if is_root else os.geteuid()
    knock = [sys.executable, "-I", "-S", "-c", KNOCK, str(folder / "guard"), str(user)]
    knocking = subprocess.run(knock, capture_output=True, text=True, timeout=60)

    assert knocking.stdout == ("hung up\n" if is_root else "answered\n"), knocking.stderr
    (folder / "guard").unlink(missing_ok=True)  # so that nothing is kept at the end


# The guard's own end


async def test_a_refusal_and_the_end_arrive_together(caplog: pytest.LogCaptureFixture) -> None:
    """The candidate was never the owner, so it has lost nothing."""
    theirs, guards = socket.socketpair()
    guards.sendall(b'{"fact": "refused", "version": 1, "reason": "no"}\n')
    guards.shutdown(socket.SHUT_WR)
    with pytest.raises(CannotTake, match="no"):
        await Guard().take(theirs)

    assert caplog.text == ""
    guards.close()


async def test_a_guard_dies_as_soon_as_it_has_handed_over(nobody_is_left: None) -> None:
    """Its processes are reported as gone, and the next order finds a new guard."""
    theirs, guards = socket.socketpair()
    process = {"n": 4, "pid": os.getpid(), "started": -1, "marker": "m-4", "argv": [], "description": None}
    yours = {"fact": "yours", "version": VERSION, "pid": os.getpid(), "started": -1, "was_orphaned": False}
    messages = Messages(guards)
    messages.send({**yours, "is_last": True, "processes": [process]}, [os.open(os.devnull, os.O_RDONLY)])
    guards.shutdown(socket.SHUT_WR)
    successor, taken = await take_with(Guard(GUARD_INTERPRETER), theirs)
    status = await taken[0].process.gone
    following = await successor.spawn(FOR_EVER, nowhere())

    assert status == signal.SIGKILL
    assert is_alive(following.pid)
    await successor.aclose()
    forget(taken)
    messages.close()


@pytest.mark.parametrize("how", ["plain", "setsid", "wiped"])
async def test_a_guard_is_killed_after_a_take(start_owner: Callable[..., GuardOwner], folder: Path, how: str) -> None:
    """The new owner is not its parent, but learns it, and ends all that is left; the next order finds a new guard."""
    owner = start_owner(command_for("leaks_grandchildren", str(free_port()), how), grace_s=60.0)
    server = owner.pids[0]
    parent = server if how == "plain" else owner.guard
    (grandchild,) = await come_true(lambda: [pid for pid in children(parent) if pid != server and start_of(pid)])
    if how == "wiped":
        await come_true(lambda: not environment(grandchild) and command_line(grandchild))
        await come_true(lambda: any(str(grandchild) in path.read_text() for path in folder.glob("*.json")))
    owner.kill()
    successor, (taken,) = await take_orphans(folder)
    os.kill(owner.guard, signal.SIGKILL)
    status = await taken.process.gone

    assert status == signal.SIGKILL
    assert (start_of(server), start_of(grandchild)) == (None, None)
    following = await successor.spawn(FOR_EVER, nowhere())
    assert start_of(following.pid)
    await successor.aclose()
    forget([taken])
