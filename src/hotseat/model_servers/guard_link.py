"""hotseat's connection to one guard. guard_process.py is the other end.

Every message has a time limit, whether or not it has an answer: a guard that neither reads nor answers is killed, and
its servers end as if it had died.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.guard_end import GuardProcess, start_guard
from hotseat.model_servers.guard_messages import VERSION, Messages, close_each
from hotseat.model_servers.guarded_process import GuardedProcess, TakenProcess
from hotseat.model_servers.os_processes import MARKER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hotseat.identifiers import Seconds
    from hotseat.model_servers.guarded_process import Order, PipeEnds

T = TypeVar("T")

ANSWER_S: Seconds = 10.0
"""For a guard to read a message and to answer it."""
TICK_S: Seconds = 1.0
"""The limit is counted in ticks, so that time in which this process was stopped, too, counts as one."""
END_S: Seconds = 45.0
"""For a guard that has read that it shall end: more than it gives to stop commands and containers."""


class CannotTake(Exception):
    """Why the servers of another hotseat process cannot be taken over, as a sentence about the guard."""


class Link:
    def __init__(self, connection: socket.socket, on_loss: Callable[[str], None], on_taken: Callable[[], None]) -> None:
        """One of the two is called at the end, the first with the reason, unless this side hangs up."""
        self.guard: GuardProcess | None = None
        """None: it has not handed anything over yet."""
        self._messages = Messages(connection)
        self._on_loss, self._on_taken = on_loss, on_taken
        self._loop = asyncio.get_running_loop()
        self._fd = connection.fileno()
        self._loop.add_reader(self._fd, self._receive)
        self._is_over = asyncio.Event()
        self._tick: asyncio.TimerHandle | None = None
        self.silent_s: Seconds = 0.0
        """How long a message has waited to be read or answered."""
        self._loss = ""
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._processes: dict[int, GuardedProcess] = {}
        self._handed: list[TakenProcess] = []
        self._taking: asyncio.Future[None] | None = None
        self._records = ""
        self._withdrawals: list[asyncio.Future[None]] = []
        self.was_orphaned = False
        """Whether nobody had the servers when this side took them."""

    @classmethod
    def to_new_guard(
        cls, interpreter: Sequence[str], records: str, on_loss: Callable[[str], None], on_taken: Callable[[], None]
    ) -> Link:
        """`records` is the folder for the guard's record of its processes; empty: none."""
        guard, connection = start_guard(interpreter, records)
        link = cls(connection, on_loss, on_taken)
        link.guard = guard
        return link

    # Requests

    def order(self, order: Order, output: PipeEnds) -> GuardedProcess:
        """Request a process; its `spawned` holds the result. Closes `output` once it is sent."""
        n = next(self._numbers)
        process = self._processes[n] = GuardedProcess(n, f"{self._name}-{n}", order.argv, self.send)
        request = {
            "do": "spawn",
            "n": n,
            "program": order.program,
            "argv": order.argv,
            "env": {**order.env, MARKER: process.marker},
            "stop": order.stop,
            "unload_timeout_s": order.unload_timeout_s,
        }
        self.send(request, output)
        return process

    def send(self, request: Mapping[str, Any], fds: Iterable[int] = ()) -> None:
        """Nothing is sent after the end; `fds` are closed in any case."""
        if self._messages.fileno() < 0:
            return close_each(fds)
        self._messages.send(request, fds)
        self._tick = self._tick or self._loop.call_later(TICK_S, self._judge)
        return self._watch_writable()

    def _watch_writable(self) -> None:
        if self._messages.has_unsent:
            self._loop.add_writer(self._fd, self._flush)
        else:
            self._loop.remove_writer(self._fd)

    def _judge(self) -> None:
        is_asked = bool(self._withdrawals) or (self._taking is not None and not self._taking.done())
        is_ordered = any(not process.spawned.done() for process in self._processes.values())
        is_waiting = is_asked or is_ordered or self._messages.is_unread
        self.silent_s = self.silent_s + TICK_S if is_waiting else 0.0
        if self.silent_s < ANSWER_S:
            self._tick = self._loop.call_later(TICK_S, self._judge) if is_waiting else None
            return
        if self.guard:
            self.guard.kill()
        self._lose(f"the guard process has not answered for {ANSWER_S:g} s")

    def _flush(self) -> None:
        self._messages.flush()
        self._watch_writable()

    async def withdraw(self) -> None:
        """Withdraw the offer; return when it is withdrawn, or when there is nothing to withdraw any more."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._withdrawals.append(answer)
        self.send({"do": "withdraw"})
        await answer

    async def take(self, records: str) -> list[TakenProcess]:
        """Become the owner and return what there is; CannotTake: this side is not, and has hung up."""
        taking = self._taking = self._loop.create_future()
        self.send({"do": "take", "version": VERSION})
        self._records = records
        try:
            await taking
        except BaseException:
            self.hang_up()
            close_each(taken.output for taken in self._handed)
            raise
        return self._handed

    async def end_all(self) -> None:
        """Return when the guard and all its processes have ended."""
        self.send({"do": "end_all"})
        await self._is_over.wait()  # the guard hangs up when it has read that
        await self.wait_for_end()

    def hang_up(self) -> None:
        """Close the connection. Safe to call twice."""
        if self._messages.fileno() < 0:
            return
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._tick:
            self._tick.cancel()
        self._messages.close()
        self._is_over.set()
        for answer in self._withdrawals:
            settle(answer, None)

    # Reports of the guard

    def _receive(self) -> None:
        self.silent_s = 0.0
        for content, fds in self._messages.receive():
            self._learn(content, fds)
        if self._messages.is_over and self._messages.fileno() >= 0:
            self._lose("the guard process has ended")

    def _lose(self, reason: str) -> None:
        self._loss = reason
        self.hang_up()
        if self.guard:
            self._on_loss(reason)
        elif self._taking and not self._taking.done():
            self._taking.set_exception(CannotTake(reason))

    def _learn(self, content: dict[str, Any], fds: list[int]) -> None:
        match content:
            case {"fact": str(fact), "n": int(n), "value": int(value)}:
                self._learn_about(n, fact, value)
            case {"fact": "yours", "processes": [*processes]}:
                self._receive_processes(content, processes, fds)
                return
            case {"fact": "refused", "reason": str(reason)} if self._taking and not self._taking.done():
                self._taking.set_exception(CannotTake(reason))
            case {"fact": "withdrawn"} if self._withdrawals:
                settle(self._withdrawals.pop(0), None)
            case {"fact": "taken"}:
                self.leave()
        close_each(fds)

    def _learn_about(self, n: int, fact: str, value: int) -> None:
        process = self._processes.get(n)
        match fact:
            case "spawned" if process:
                process.started = start_of(value)
                settle(process.spawned, value)
            case "failed" if process:
                del self._processes[n]
                settle(process.spawned, OSError(value, os.strerror(value)))
            case "gone" if process:
                del self._processes[n]
                settle(process.gone, value)

    def _receive_processes(self, content: dict[str, Any], processes: list[dict[str, Any]], fds: list[int]) -> None:
        for each, output in zip(processes, fds, strict=True):
            process = GuardedProcess(each["n"], each["marker"], tuple(each["argv"]), self.send)
            process.started = each["started"]
            process.spawned.set_result(each["pid"])
            self._processes[process.n] = process
            self._handed.append(TakenProcess(process, each["description"], output))
        if self._taking and content["is_last"] and not self._taking.done():
            self.guard = GuardProcess(content["pid"], content["started"], self._records)
            self.was_orphaned = content["was_orphaned"]
            self._numbers = itertools.count(1 + max(self._processes, default=0))
            self._taking.set_result(None)

    def leave(self) -> None:
        """Another hotseat process has the servers, or will: from now on this one says and learns nothing about them."""
        self.hang_up()
        for process in self._processes.values():
            process.be_taken()
        self._on_taken()

    # After its end

    async def wait_for_end(self) -> None:
        """Return when the guard and its former children have ended; then every process has its status."""
        assert self.guard
        killing = self._loop.call_later(END_S, self.guard.kill)
        statuses: dict[int, int] = {}
        try:
            statuses = await self.guard.ended([each for each in self._processes.values() if each.spawned.done()])
        finally:  # also after an error: their servers have ended with the guard, and nobody else reports that
            killing.cancel()
            for process in self._processes.values():
                if process.spawned.done():
                    settle(process.gone, statuses.get(process.pid, signal.SIGKILL))
                else:
                    settle(process.spawned, ConnectionResetError(self._loss))
            self._processes.clear()


def settle(future: asyncio.Future[T], outcome: T | OSError) -> None:
    if future.done():
        return
    if isinstance(outcome, OSError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
