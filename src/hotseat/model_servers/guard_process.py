"""The guard: a small separate process that is the parent of every model server, so that none outlives hotseat.

guard_client.py is hotseat's side of the socket. The guard starts programs on request, reports their end at once and
ends what they left behind. When the socket closes, for example because hotseat was killed, it ends every program and
exits. It runs in an isolated interpreter without site-packages: standard library, os_processes.py, descendants.py and
monitors.py only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from hotseat.model_servers.descendants import Register
from hotseat.model_servers.monitors import MONITOR_S, is_monitor, is_monitor_of, to_kill
from hotseat.model_servers.os_processes import (
    MARKER,
    become_subreaper,
    children,
    collect_one,
    group_of,
    kill_each,
    marker_of,
    run_program,
    signal_group,
)

LAST_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL if hotseat has died."""

STOP_LIMIT_S = 10.0
"""Limit for `cmdStop` in that case."""

SHORTEST_SCAN_S, LONGEST_SCAN_S = 0.25, 10.0
"""Between two scans of descendants; servers start most of theirs at their own start."""

POLL_S = 0.05
"""SIGCHLD wakes the guard; this is for deadlines and missed signals."""


class Tree:
    """The processes of one launch. `status` is the leader's wait status once it was collected."""

    def __init__(self, n: int, pid: int, request: dict[str, Any], stops: Tree | None = None) -> None:
        self.n, self.pid, self.request = n, pid, request
        self.stops = stops
        """Set for a `cmdStop`: the tree that it ends."""
        self.status: int | None = None
        self.deadline = float("inf")
        self.monitors_until = 0.0
        """Set when the leader ends."""
        self.scans_left = 2
        """How many more scans to make while the owner of an orphan is unknown."""

    def owns(self, pid: int) -> bool:
        if group_of(pid) == self.pid or marker_of(pid) == self.request["env"][MARKER]:
            return True
        return is_monitor_of(pid, self.request["argv"])

    def signal(self, number: int) -> None:
        """Signal the group, unless the leader was collected: then the pid may belong to another process."""
        if self.status is None:
            signal_group(self.pid, number)


class GuardServer:
    def __init__(self, hotseat: socket.socket, register: Register) -> None:
        self._hotseat = hotseat
        self._register = register
        self._scan_pause_s = SHORTEST_SCAN_S
        self._scan_at = 0.0
        self._trees: dict[int, Tree] = {}
        self._orphans: dict[int, Tree] = {}
        """Owner by pid. Kept, because an exiting process no longer shows its environment."""
        self._unread = b""
        self._handed: list[int] = []
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Serve hotseat until its end of the socket closes, then end everything."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        become_subreaper()
        while self._listen():
            self._handle_ended()
            self._scan_if_due()
            self._pause(self._hotseat)
        self._hotseat.close()
        self._end_all()
        self._register.remove()

    def _pause(self, *readable: socket.socket) -> None:
        """Wait for a request or a SIGCHLD; return soon while processes are being ended."""
        is_ending = not readable or any(tree.status is not None for tree in self._trees.values())
        waited_for: list[Any] = [*readable, self._woken]
        select.select(waited_for, [], [], POLL_S if is_ending else self._until_scan_s())
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass

    # The record for the next hotseat

    def _scan_if_due(self) -> None:
        if not self._trees:
            return self._register.remove()
        if time.monotonic() < self._scan_at:
            return None
        self._register.note_descendants()
        self._scan_at = time.monotonic() + self._scan_pause_s
        self._scan_pause_s = min(2 * self._scan_pause_s, LONGEST_SCAN_S)
        return None

    def _until_scan_s(self) -> float | None:
        """None: no scan is due."""
        if not (self._trees and self._register.is_kept):
            return None
        return max(0.0, self._scan_at - time.monotonic())

    # Requests of hotseat

    def _listen(self) -> bool:
        """Carry out the received requests; False if hotseat is gone."""
        while select.select([self._hotseat], [], [], 0)[0]:  # recv_fds takes flags but drops them, so it would block
            try:
                received, handed, _, _ = socket.recv_fds(self._hotseat, 1 << 16, 8)
            except ConnectionError:
                return False
            if not received:
                return False
            self._handed += handed
            *requests, self._unread = (self._unread + received).split(b"\n")
            for request in requests:
                self._carry_out(json.loads(request))
        return True

    def _carry_out(self, request: dict[str, Any]) -> None:
        if request["do"] == "spawn":
            self._spawn(request, self._handed.pop(0))
        elif tree := self._trees.get(request["n"]):
            tree.signal(request["signal"])

    def _spawn(self, request: dict[str, Any], output: int) -> None:
        n = request["n"]
        os.set_inheritable(output, False)
        try:
            pid = run_program(request["program"], request["argv"], request["env"], output)
        except OSError as problem:
            return self._send(n, "failed", problem.errno or errno.EINVAL)
        self._trees[n] = Tree(n, pid, request)
        self._scan_at, self._scan_pause_s = 0.0, SHORTEST_SCAN_S
        return self._send(n, "spawned", pid)

    def _send(self, n: int, fact: str, value: int) -> None:
        with contextlib.suppress(OSError):  # hotseat is gone: the next read will show it
            self._hotseat.sendall(json.dumps({"n": n, "fact": fact, "value": value}).encode() + b"\n")

    # Ended processes and what they left behind

    def _handle_ended(self) -> None:
        has_children = self._collect()
        for tree in list(self._trees.values()):
            if tree.status is not None and not (has_children and self._end_leftovers(tree)):
                del self._trees[tree.n]
                self._send(tree.n, "gone", tree.status)
        if has_children and not self._trees:
            # They cleared their environment, and their owner is gone. Monitors end after their containers.
            kill_each(to_kill(children(os.getpid()), is_late=False))

    def _collect(self) -> bool:
        """Collect ended children; False if no child is left."""
        leaders = {tree.pid: tree for tree in self._trees.values() if tree.status is None}

        def end_group(pid: int) -> None:
            if pid in leaders:
                signal_group(pid, signal.SIGKILL)

        with contextlib.suppress(ChildProcessError):
            while ended := collect_one(before=end_group):
                pid, status = ended
                self._orphans.pop(pid, None)
                if leader := leaders.get(pid):
                    self._leader_ended(leader, status)
            return True
        return False

    def _leader_ended(self, leader: Tree, status: int) -> None:
        leader.status = status
        leader.monitors_until = time.monotonic() + MONITOR_S
        if leader.stops and status != 0:
            self._ask_to_end(leader.stops)

    def _end_leftovers(self, tree: Tree) -> bool:
        """End what is left of a tree whose leader is gone; False if nothing is."""
        owners = {pid: self._owner(pid) for pid in children(os.getpid())}
        left = [pid for pid, owner in owners.items() if owner is tree]
        kill_leftovers(left, tree.monitors_until)
        if left or None not in owners.values() or not tree.scans_left:
            return bool(left)
        # During exec and exit a process shows no environment: it may belong to this tree.
        tree.scans_left -= 1
        return True

    def _owner(self, pid: int) -> Tree | None:
        owner = self._orphans.get(pid) or next((tree for tree in self._trees.values() if tree.owns(pid)), None)
        if owner is None and len(self._trees) == 1 and is_monitor(pid):
            (owner,) = self._trees.values()  # a container without a known name: it can be nobody else's
        if owner:
            self._orphans[pid] = owner
        return owner

    # After the end of hotseat

    def _end_all(self) -> None:
        for tree in list(self._trees.values()):
            self._begin_stop(tree)
        while self._trees:
            self._pause()
            self._handle_ended()
            for tree in self._trees.values():
                if time.monotonic() > tree.deadline:
                    tree.signal(signal.SIGKILL)
        monitors_until = time.monotonic() + MONITOR_S
        while self._collect():
            kill_leftovers(children(os.getpid()), monitors_until)
            self._pause()

    def _begin_stop(self, tree: Tree) -> None:
        if not tree.request["stop"]:
            return self._ask_to_end(tree)
        try:
            stop = self._trees[-tree.n] = self._run_stop(tree)
        except OSError:
            return self._ask_to_end(tree)
        limit = min(tree.request["unload_timeout_s"], STOP_LIMIT_S)
        stop.deadline = tree.deadline = time.monotonic() + limit
        return None

    def _run_stop(self, tree: Tree) -> Tree:
        program, *argv = [word.replace("${PID}", str(tree.pid)) for word in tree.request["stop"]]
        env = {**tree.request["env"], MARKER: f"stop of {tree.n}"}
        pid = run_program(program, argv, env, os.open(os.devnull, os.O_WRONLY))
        return Tree(-tree.n, pid, {"argv": argv, "env": env, "stop": None}, stops=tree)

    def _ask_to_end(self, tree: Tree) -> None:
        tree.signal(signal.SIGTERM)
        tree.signal(signal.SIGCONT)  # a stopped process handles no other signal
        tree.deadline = min(tree.deadline, time.monotonic() + LAST_GRACE_S)


def kill_leftovers(pids: list[int], monitors_until: float) -> None:
    """Monitors and containers live until then; the monitors have the same time again to remove the containers."""
    late_s = time.monotonic() - monitors_until
    kill_each(to_kill(pids, is_late=late_s > MONITOR_S) if late_s > 0 else [p for p in pids if not is_monitor(p)])


def main() -> None:
    """The second argument is the folder for the record; empty: none."""
    GuardServer(socket.socket(fileno=0), Register(sys.argv[2])).serve()
