"""A restart with a new process that misbehaves at every step: the old one goes on, or has handed over."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.catalogs import one_at_a_time
from tests.support.fake_launcher import FakeLauncher
from tests.support.hanging_disk import hanging
from tests.support.successors import OfferedServers, write_successor
from tests.support.waiting import come_true

from hotseat import threads
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import RestartFailed, RestartInProgress, ShuttingDown
from hotseat.handover.restarts import STOPPING, Description, RemoteScheduler, Restarts, TimeLimits
from hotseat.handover.successor import ENDED, Listening
from hotseat.identifiers import ModelName
from hotseat.model_servers.os_processes import children
from hotseat.scheduling.events import HandoverCancelled, HandoverRequested
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
SYSTEMD = {"NOTIFY_SOCKET": "/run/systemd/notify"}
ANYBODY = pytest.mark.parametrize("follower", [{}, SYSTEMD], ids=["shell", "systemd"], indirect=True)
NOTHING_LISTENS = Listening([], [], ("127.0.0.1", 8080), None, by_systemd=False)


class Rig:
    """An old process with a dispatcher, and what happened in it."""

    def __init__(
        self,
        launcher: FakeLauncher,
        limits: TimeLimits,
        description: Callable[[], Description],
        environ: dict[str, str],
    ) -> None:
        self.journal, self.servers, self.launcher = Journal(), OfferedServers(), launcher
        scheduler = Scheduler(one_at_a_time("qwen", "llama"))
        self.dispatcher = Dispatcher(scheduler, launcher, self.journal)
        self.events: list[object] = []
        self.journal.listen(lambda entry: self.events.append(type(entry.event)))
        self.left_to: list[int] = []
        self._others = {*children(os.getpid())}
        self.reloads = 0
        self.restarts = Restarts(
            self.dispatcher,
            scheduler,
            self.journal,
            self.servers,
            NOTHING_LISTENS,
            description,
            {**os.environ, **environ},
            self._leave,
            lambda: self.reloads,
            limits,
        )

    def children(self) -> set[int]:
        """Those of this test: an earlier one may have made this process adopt orphans."""
        return {*children(os.getpid())} - self._others

    async def new_process_is_gone(self) -> None:
        """One that was given up during its start is killed a moment later."""
        await come_true(lambda: not (self.children() or threads._looking))

    async def _leave(self, successor: int) -> None:
        self.left_to.append(successor)


@pytest.fixture
def follower(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of whoever follows the process that serves; none: a shell, which knows the first one only."""
    return getattr(request, "param", {})


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follower: dict[str, str]) -> Callable[..., Any]:
    """An old process whose new one behaves as `how` says; at the end no child is left."""
    program = write_successor(tmp_path)

    @asynccontextmanager
    async def opened(
        how: str,
        limits: TimeLimits = TimeLimits(),  # noqa: B008
        launcher: FakeLauncher | None = None,
        description: Callable[[], Description] = lambda: Description({"scheduler": "{}"}),
    ) -> AsyncIterator[Rig]:
        monkeypatch.setattr(sys, "argv", [program, how])
        rig = Rig(launcher or FakeLauncher(), limits, description, follower)
        yield rig
        if successor := rig.restarts.successor:
            successor.channel.close()
            await successor.exit_code()
        else:
            await rig.dispatcher.shut_down(within=0)
        await rig.new_process_is_gone()

    return opened


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def assert_goes_on(rig: Rig, reason: str) -> None:
    """As if nothing had happened: it decides, loads and unloads, and may try again."""
    assert reason in rig.restarts.problem
    assert (rig.restarts.is_in_progress, rig.restarts.attempts) == (False, 1)
    assert rig.restarts.serving_pid == os.getpid()
    await rig.new_process_is_gone()
    await rig.dispatcher.operator.load(LLAMA)
    assert rig.launcher.alive == [LLAMA]
    assert HandoverRequested not in rig.events or rig.events.count(HandoverCancelled) == 1


@ANYBODY
@pytest.mark.parametrize(
    ("how", "limits", "reason"),
    [
        ("dies before hello", TimeLimits(), ENDED),
        ("refuses", TimeLimits(), "config.yaml: unknown key"),
        ("hangs before hello", TimeLimits(start_s=0.1), "not ready within 0.1 s"),
        ("dies when ready", TimeLimits(), ENDED),
        ("hangs when ready", TimeLimits(take_s=0.1), "did not take over within 0.1 s"),
        ("dies before take", TimeLimits(), ENDED),
        ("hangs before take", TimeLimits(take_s=0.1), "did not take over within 0.1 s"),
    ],
)
async def test_the_new_process_fails_before_it_has_the_servers(
    opened: Callable[..., Any], how: str, limits: TimeLimits, reason: str
) -> None:
    """The old one continues, with the reason; no child, no descriptor and no hold on loads is left."""
    async with opened(how, limits) as rig:
        await rig.dispatcher.operator.load(QWEN)
        before = open_files()
        with pytest.raises(RestartFailed, match=reason):
            await rig.restarts.restart()

        assert open_files() == before
        assert rig.servers.offers == rig.servers.withdrawals
        await assert_goes_on(rig, reason)


@ANYBODY
@pytest.mark.parametrize("how", ["obeys", "speaks another language"])
async def test_the_new_process_takes_over(opened: Callable[..., Any], how: str) -> None:
    """Messages that only a newer version knows, and repeated ones, change nothing."""
    async with opened(how) as rig:
        pid = await rig.restarts.restart()

        assert (rig.restarts.serving_pid, rig.restarts.problem) == (pid, "")
        assert rig.restarts.is_handed_over.is_set()
        assert rig.left_to == [pid]
        assert rig.restarts.management == "/run/api.sock"
        with pytest.raises(RestartInProgress):
            await rig.restarts.restart()


async def test_a_reload_that_the_new_process_does_not_know_of(opened: Callable[..., Any]) -> None:
    """Whoever waits for the handover to end passes it on; one that was there before is no news."""
    async with opened("obeys") as rig:
        rig.reloads = 3
        await rig.restarts.restart()
        assert not rig.restarts.has_new_reload
        rig.reloads = 4

        assert rig.restarts.has_new_reload


@ANYBODY
async def test_the_new_process_dies_with_the_servers(opened: Callable[..., Any], follower: dict[str, str]) -> None:
    """The old one has handed over all the same: it refuses what waits, and knows the exit code unless systemd does."""
    async with opened("dies after take") as rig:
        with pytest.raises(RestartFailed, match=ENDED):
            await rig.restarts.restart()
        successor = rig.restarts.successor
        assert successor is not None
        assert await successor.exit_code() == (0 if follower else 3)
        assert rig.restarts.is_handed_over.is_set()
        with pytest.raises(ShuttingDown):
            await rig.dispatcher.operator.load(QWEN)


@ANYBODY
async def test_the_new_process_hangs_with_the_servers(opened: Callable[..., Any], follower: dict[str, str]) -> None:
    """It is killed after a time, and the old one refuses what waits and ends with it: it cannot take them back."""
    async with opened("hangs after take", TimeLimits(listen_s=0.1)) as rig:
        with pytest.raises(RestartFailed, match=r"did not listen within 0\.1 s"):
            await rig.restarts.restart()
        successor = rig.restarts.successor
        assert successor is not None
        assert await successor.exit_code() == (0 if follower else 128 + signal.SIGKILL)
        assert (rig.restarts.serving_pid, rig.restarts.is_handed_over.is_set()) == (os.getpid(), True)
        with pytest.raises(ShuttingDown):
            await rig.dispatcher.operator.load(QWEN)


@ANYBODY
async def test_the_program_is_missing(opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade has removed its interpreter: the restart fails with the reason, and nothing else happens."""
    async with opened("obeys") as rig:
        monkeypatch.setattr(sys, "argv", ["/nowhere/hotseat"])
        monkeypatch.setattr("hotseat.handover.successor.new_program", lambda argv: argv)
        before = open_files()
        with pytest.raises(RestartFailed, match="could not be started"):
            await rig.restarts.restart()

        assert open_files() == before
        await assert_goes_on(rig, "No such file")


async def test_the_state_cannot_be_described(opened: Callable[..., Any]) -> None:
    """An error of our own is a failed restart like any other, before the servers were offered."""

    def description() -> Description:
        raise OSError("no space left")

    async with opened("obeys", description=description) as rig:
        with pytest.raises(RestartFailed, match="no space left"):
            await rig.restarts.restart()

        assert rig.servers.offers == 0
        await assert_goes_on(rig, "OSError: no space left")


async def test_two_restarts_at_once(opened: Callable[..., Any]) -> None:
    """The second is refused; a signal is ignored."""
    async with opened("hangs before hello") as rig:
        first = Tasks().start(rig.restarts.try_to_restart(), "restart")
        await come_true(lambda: rig.restarts.is_in_progress)
        with pytest.raises(RestartInProgress):
            await rig.restarts.restart()
        await rig.restarts.try_to_restart()
        await rig.restarts.give_up()
        await first

        assert rig.restarts.attempts == 1


async def test_whoever_asked_for_it_leaves(opened: Callable[..., Any]) -> None:
    """A client that disconnects does not end a restart."""
    async with opened("obeys") as rig:
        asking = Tasks().start(rig.restarts.restart(), "a request")
        await come_true(lambda: rig.restarts.is_in_progress)
        asking.cancel()

        await rig.restarts.is_handed_over.wait()


async def test_the_disk_of_the_program_does_not_respond(
    opened: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop does not wait for it, and what starts after all is killed."""
    monkeypatch.setattr(threads, "DISK_S", 0.1)
    async with opened("hangs before hello") as rig:
        with hanging(tmp_path), pytest.raises(RestartFailed, match="the disk has not responded"):
            await rig.restarts.restart()

        await assert_goes_on(rig, "the new process could not be started")


async def test_the_new_process_gets_signals(opened: Callable[..., Any]) -> None:
    """It is started by a thread that gets none."""
    async with opened("hangs before hello", TimeLimits(start_s=60)) as rig:
        restarting = Tasks().start(rig.restarts.try_to_restart(), "restart")
        (pid,) = await come_true(rig.children)
        os.kill(pid, signal.SIGTERM)
        await restarting

        await assert_goes_on(rig, ENDED)


# The process is to stop


@pytest.mark.parametrize("how", ["hangs before hello", "hangs when ready", "hangs before take"])
async def test_a_signal_to_stop(opened: Callable[..., Any], how: str) -> None:
    """The new process is ended at whatever step it is, the servers stay, and no other restart begins."""
    async with opened(how) as rig:
        asking = Tasks().start(rig.restarts.try_to_restart(), "restart")
        await come_true(lambda: rig.children() if how == "hangs before hello" else rig.servers.offers)
        await rig.restarts.give_up()
        await asking

        assert rig.restarts.successor is None
        await assert_goes_on(rig, STOPPING)
        with pytest.raises(RestartFailed):
            await rig.restarts.restart()


async def test_a_signal_to_stop_while_a_model_loads(opened: Callable[..., Any]) -> None:
    """The load goes on; what waited for the handover is decided."""
    launcher = FakeLauncher(slow=("qwen",))
    async with opened("obeys", launcher=launcher) as rig:
        loading = Tasks().start(rig.dispatcher.operator.load(QWEN), "load")
        asking = Tasks().start(rig.restarts.try_to_restart(), "restart")
        await come_true(lambda: HandoverRequested in rig.events)
        await rig.restarts.give_up()
        launcher.become_ready("qwen")
        await loading
        await asking

        await assert_goes_on(rig, STOPPING)


async def test_a_signal_to_stop_comes_too_late(opened: Callable[..., Any]) -> None:
    """A process that has the servers is not killed: it is the one to be stopped."""
    async with opened("hangs after take") as rig:
        asking = Tasks().start(rig.restarts.try_to_restart(), "restart")
        await come_true(lambda: rig.servers.is_taken)
        await rig.restarts.give_up()

        assert rig.restarts.successor is not None
        os.kill(rig.restarts.successor.pid, signal.SIGKILL)
        await asking


# Loads in progress


async def test_the_new_process_dies_while_a_model_loads(opened: Callable[..., Any]) -> None:
    """Nothing is held back any longer, although the load has not ended."""
    launcher = FakeLauncher(slow=("qwen",))
    async with opened("dies when ready", launcher=launcher) as rig:
        loading = Tasks().start(rig.dispatcher.operator.load(QWEN), "load")
        with pytest.raises(RestartFailed, match=ENDED):
            await rig.restarts.restart()
        launcher.become_ready("qwen")
        await loading

        await assert_goes_on(rig, ENDED)


async def test_a_load_takes_too_long(opened: Callable[..., Any]) -> None:
    """The restart is given up, and not the load."""
    launcher = FakeLauncher(slow=("qwen",))
    async with opened("obeys", TimeLimits(settle_s=0.1), launcher) as rig:
        loading = Tasks().start(rig.dispatcher.operator.load(QWEN), "load")
        with pytest.raises(RestartFailed, match="still loading"):
            await rig.restarts.restart()
        launcher.become_ready("qwen")
        await loading

        await assert_goes_on(rig, "still loading or unloading after 0.1 s")


async def test_a_request_during_the_handover(opened: Callable[..., Any]) -> None:
    """It is kept, and sent to the new process, which decides about it."""
    async with opened("hangs before take") as rig:
        asking = Tasks().start(rig.restarts.try_to_restart(), "restart")
        await come_true(lambda: rig.servers.offers)
        loading = Tasks().start(rig.dispatcher.operator.load(QWEN), "load")
        await rig.restarts.give_up()
        await asking
        await loading

        assert rig.launcher.alive == [QWEN]
        assert not isinstance(rig.dispatcher._scheduler, RemoteScheduler)
