"""The guard: a small separate process that is the parent of every model server, so that none outlives hotseat.

guard_client.py is hotseat's side. The guard starts programs for its owner (guard_trees.py), reports their end at once
and ends what they left behind. guard_ownership.py decides who the owner is, and when everything ends: for example
because hotseat was killed. It runs in an isolated interpreter without site-packages: standard library only, and modules
of this package that import nothing else.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from hotseat.model_servers.descendants import Register, start_of
from hotseat.model_servers.guard_listener import Listener
from hotseat.model_servers.guard_messages import MOST_FDS, VERSION, Message, Messages
from hotseat.model_servers.guard_ownership import Close, EndAll, Ending, HandOver, Orphaned, Ownership, Tell
from hotseat.model_servers.guard_trees import Tree, Trees
from hotseat.model_servers.guard_waiting import Scans, Waker
from hotseat.model_servers.os_processes import become_subreaper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.model_servers.guard_ownership import Connection, Effect

POLL_S = 0.05
"""SIGCHLD wakes the guard; this is for deadlines, missed signals, and output that nobody reads."""

BATCH = 100
"""Processes in one message to a new owner, each with a descriptor."""
assert BATCH <= MOST_FDS


class GuardServer:
    def __init__(self, owner: socket.socket, register: Register) -> None:
        self._numbers = itertools.count()
        self._peers: dict[Connection, Messages] = {}
        self._leaving: list[Messages] = []
        """Closed when all that they were sent has left."""
        self._ownership = Ownership(self._add(owner))
        self._listener: Listener | None = None
        self._trees = Trees(self._report)
        self._scans = Scans(register)
        self._waker = Waker()

    def serve(self) -> None:
        """Obey the owner until there is none, then end everything."""
        ignore_signals()
        become_subreaper()
        while not isinstance(self._ownership.state, Ending):
            self._read_all()
            self._trees.handle_ended()
            self._scans.scan_if_due(bool(self._trees))
            self._look_after_orphans()
            self._pause()
        self._hang_up()
        self._trees.end_all(lambda: self._waker.pause([], POLL_S))
        self._scans.forget()

    def _pause(self) -> None:
        """Wait for a message or a SIGCHLD; return soon while processes are being ended or nobody reads their output."""
        if isinstance(self._ownership.state, Ending):
            return
        readable: list[Any] = [self._peers[each] for each in self._ownership.connections]
        if self._listener and self._ownership.accepts:
            readable.append(self._listener)
        is_busy = self._trees.is_any_ending or isinstance(self._ownership.state, Orphaned)
        writable = [peer for peer in (*self._peers.values(), *self._leaving) if peer.has_unsent]
        self._waker.pause(readable, POLL_S if is_busy else self._scans.until_next_s(bool(self._trees)), writable)

    def _look_after_orphans(self) -> None:
        is_reachable = self._listener is not None and self._listener.is_reachable
        self._carry_out(self._ownership.pass_time(time.monotonic(), is_reachable))
        if isinstance(self._ownership.state, Orphaned):
            for tree in self._trees:
                if tree.output:
                    tree.output.drain()

    # Connections

    def _add(self, connection: socket.socket) -> Connection:
        number = next(self._numbers)
        self._peers[number] = Messages(connection)
        return number

    def _read_all(self) -> None:
        self._flush()
        self._read_known()
        while self._listener and self._ownership.accepts and (candidate := self._listener.accept()):
            self._read_known()  # whoever connects may have waited for the owner's end
            self._carry_out(self._ownership.connect(self._add(candidate)))

    def _read_known(self) -> None:
        for connection in self._ownership.connections:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        """An earlier one may have closed this connection."""
        if (peer := self._peers.get(connection)) is None:
            return
        for message in peer.receive():
            if connection in self._peers:
                self._follow(connection, message)
            else:
                message.close_fds()
        if peer.is_over and connection in self._peers:
            self._carry_out(self._ownership.close(connection, time.monotonic()))

    def _flush(self) -> None:
        for peer in (*self._peers.values(), *self._leaving):
            peer.flush()
        for peer in [peer for peer in self._leaving if not peer.has_unsent]:
            self._leaving.remove(peer)
            peer.close()

    def _hang_up(self) -> None:
        self._flush()
        for peer in (*self._peers.values(), *self._leaving):
            peer.close()
        if self._listener:
            self._listener.close()

    # Messages

    def _follow(self, connection: Connection, message: Message) -> None:
        content = message.content
        if content.get("do") == "take":
            message.close_fds()
            self._carry_out(self._ownership.take(connection, content.get("version")))
        elif self._ownership.obeys(connection):
            self._obey(connection, message)
        else:
            message.close_fds()

    def _obey(self, owner: Connection, message: Message) -> None:
        match message:
            case Message({"do": "spawn"} as request, [write_end, read_end]):
                self._scans.scan_soon()
                self._trees.spawn(request, write_end, read_end)
            case Message({"do": "keep", "grace_s": grace_s} as request, fds):
                self._listen(request, fds)
                self._carry_out(self._ownership.keep_for(owner, grace_s))
            case Message({"do": "offer"}, [candidate]):
                self._carry_out(self._ownership.offer(owner, self._add(socket.socket(fileno=candidate))))
            case Message({"do": "withdraw"}):
                self._carry_out(self._ownership.withdraw(owner))
            case Message({"do": "end_all"}):
                self._carry_out(self._ownership.end(owner))
            case Message({"n": n}) if tree := self._trees.get(n):
                self._obey_about(tree, message.content)
            case _:  # of another version, or about a process that is gone
                message.close_fds()

    def _obey_about(self, tree: Tree, request: dict[str, Any]) -> None:
        match request:
            case {"do": "signal", "signal": number}:
                tree.signal(number)
            case {"do": "stopping"}:
                tree.begin_stop()
            case {"do": "describe", "description": description}:
                self._scans.scan_soon()  # it is ready, so all that it starts runs by now
                tree.description = description
            case {"do": "limit", "unload_timeout_s": limit}:
                tree.request["unload_timeout_s"] = limit
            case {"do": "end"}:
                limit = tree.request["unload_timeout_s"]
                self._trees.end(tree, term_s=limit, stop_s=limit)

    def _listen(self, request: dict[str, Any], fds: list[int]) -> None:
        """On the new owner's socket instead of the former one."""
        if self._listener:
            self._listener.close()
        self._listener = Listener(fds[0], request["path"], request["inode"]) if fds else None

    # Effects

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Tell(to, content):
                    self._peers[to].send(content)
                case Close(connection):
                    self._leaving.append(self._peers.pop(connection))
                case HandOver(to, was_orphaned):
                    self._hand_over(self._peers[to], was_orphaned)
                case EndAll():
                    pass  # the loop ends with the state
        self._flush()

    def _hand_over(self, owner: Messages, was_orphaned: bool) -> None:
        """In several messages, because the kernel limits the descriptors of each."""
        trees = [tree for tree in self._trees if tree.output]
        own = {"fact": "yours", "version": VERSION, "pid": os.getpid(), "started": start_of(os.getpid())}
        for first in range(0, max(len(trees), 1), BATCH):
            batch = trees[first : first + BATCH]
            content = {"was_orphaned": was_orphaned, "is_last": first + BATCH >= len(trees)}
            processes = {"processes": [tree.as_handed_over for tree in batch]}
            owner.send({**own, **content, **processes}, [tree.output.copy() for tree in batch if tree.output])

    def _report(self, n: int, fact: str, value: int) -> None:
        for connection in self._ownership.connections:
            if self._ownership.obeys(connection):
                self._peers[connection].send({"n": n, "fact": fact, "value": value})


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)


def main() -> None:
    """The second argument is the folder for the record; empty: none."""
    GuardServer(socket.socket(fileno=0), Register(sys.argv[2])).serve()
