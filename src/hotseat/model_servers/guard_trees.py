"""The processes under the guard: started, watched, ended, and all that they left behind.

What a leader leaves behind is killed at once, unless it ended because it was to be stopped: then the rest of its tree
is asked to end, too, and has the rest of the time. A server behind a script ends as gracefully as one without.
Used by the guard: standard library, os_processes.py, descendants.py and monitors.py only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Protocol

from hotseat.model_servers.descendants import descendants, start_of
from hotseat.model_servers.guard_output import OutputPipe
from hotseat.model_servers.monitors import MONITOR_S, is_monitor, is_monitor_of, to_kill
from hotseat.model_servers.os_processes import (
    MARKER,
    children,
    collect_one,
    group_of,
    kill_each,
    marker_of,
    processes,
    run_program,
    signal_group,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LAST_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL if hotseat has died."""

STOP_LIMIT_S = 10.0
"""Limit for `cmdStop` in that case."""


class Reports(Protocol):
    def __call__(self, n: int, fact: str, value: int) -> None:
        """Tell the owner about a process."""


class Tree:
    """The processes of one launch. `status` is the leader's wait status once it was collected."""

    def __init__(self, n: int, pid: int, request: dict[str, Any], stops: Tree | None = None) -> None:
        self.n, self.pid, self.request = n, pid, request
        self.started = start_of(pid)
        self.stops = stops
        """Set for a `cmdStop`: the tree that it ends."""
        self.output: OutputPipe | None = None
        self.description: object = None
        """hotseat's, for the next one."""
        self.status: int | None = None
        self.is_stopping = False
        """It is to end: what its leader leaves behind may finish until the deadline."""
        self.deadline = float("inf")
        self.ended_at = 0.0
        """When its leader ended."""
        self._descendants: dict[int, int] = {}
        """Start times by pid, when the stop began: one without environment in its own session is not known later."""
        self._asked: set[int] = set()
        """Pids of the processes that got SIGTERM; that of the leader stands for its group."""
        self.scans_left = 2
        """How many more scans to make while the owner of an orphan is unknown."""

    def owns(self, pid: int) -> bool:
        if group_of(pid) == self.pid or marker_of(pid) == self.request["env"][MARKER]:
            return True
        return self._descendants.get(pid, 0) == start_of(pid) or is_monitor_of(pid, self.request["argv"])

    def signal(self, number: int) -> None:
        """Signal the group, unless the leader was collected: then the pid may belong to another process."""
        if number == signal.SIGKILL:
            self.deadline = min(self.deadline, time.monotonic())  # also for what the leader leaves behind
        if self.status is None:
            signal_group(self.pid, number)
            if number == signal.SIGTERM:
                self._asked.add(self.pid)

    def begin_stop(self) -> None:
        self.is_stopping = True
        if self.status is None:
            self._descendants |= descendants(self.pid) if children(self.pid) else {}

    @property
    def may_finish(self) -> bool:
        return self.is_stopping and time.monotonic() < self.deadline

    @property
    def monitors_until(self) -> float:
        return max(self.ended_at + MONITOR_S, self.deadline)

    def ask_rest(self, pids: Iterable[int]) -> None:
        """Ask each process that the leader left behind once: many a server is in a hurry when it is asked twice."""
        new = {pid for pid in pids if not self._asked.intersection((pid, group_of(pid))) and not is_monitor(pid)}
        self._asked |= new
        kill_each(new, signal.SIGTERM)
        kill_each(new, signal.SIGCONT)

    def ask_to_end(self, within_s: float) -> None:
        self.begin_stop()
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a stopped process handles no other signal
        self.deadline = min(self.deadline, time.monotonic() + within_s)

    @property
    def as_handed_over(self) -> dict[str, Any]:
        own = {"n": self.n, "pid": self.pid, "started": self.started, "marker": self.request["env"][MARKER]}
        return {**own, "argv": self.request["argv"], "description": self.description}


class Trees:
    def __init__(self, report: Reports) -> None:
        self._report = report
        self._trees: dict[int, Tree] = {}
        self._orphans: dict[int, Tree] = {}
        """Owner by pid. Kept, because an exiting process no longer shows its environment."""

    def __bool__(self) -> bool:
        return bool(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        """Those that hotseat has ordered."""
        return (tree for tree in self._trees.values() if tree.stops is None)

    @property
    def is_any_ending(self) -> bool:
        return any(tree.status is not None or tree.deadline < float("inf") for tree in self._trees.values())

    def get(self, n: int) -> Tree | None:
        return self._trees.get(n)

    def spawn(self, request: dict[str, Any], write_end: int, read_end: int) -> None:
        n = request["n"]
        try:
            pid = run_program(request["program"], request["argv"], request["env"], write_end)
        except OSError as problem:
            os.close(read_end)
            return self._report(n, "failed", problem.errno or errno.EINVAL)
        tree = self._trees[n] = Tree(n, pid, request)
        tree.output = OutputPipe(read_end)
        return self._report(n, "spawned", pid)

    # Ended processes and what they left behind

    def handle_ended(self) -> None:
        has_children = self._collect()
        for tree in list(self._trees.values()):
            if time.monotonic() > tree.deadline:
                tree.signal(signal.SIGKILL)
            if tree.status is not None and not (has_children and self._end_leftovers(tree)):
                self._forget(tree, tree.status)
        if has_children and not self._trees:
            # They cleared their environment, and their owner is gone. Monitors end after their containers.
            kill_each(to_kill(children(os.getpid()), is_late=False))

    def _forget(self, tree: Tree, status: int) -> None:
        del self._trees[tree.n]
        if tree.output:
            tree.output.close()
        if tree.stops is None:
            self._report(tree.n, "gone", status)

    def _collect(self) -> bool:
        """Collect ended children; False if no child is left."""
        leaders = {tree.pid: tree for tree in self._trees.values() if tree.status is None}

        def end_group(pid: int) -> None:
            if pid in leaders and not (leaders[pid].may_finish and processes()):  # without /proc the rest is lost
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
        leader.status, leader.ended_at = status, time.monotonic()
        if not leader.is_stopping:
            leader.deadline = 0.0
        if leader.stops and status != 0:
            leader.stops.ask_to_end(LAST_GRACE_S)

    def _end_leftovers(self, tree: Tree) -> bool:
        """End what is left of a tree whose leader is gone; False if nothing is."""
        owners = {pid: self._owner(pid) for pid in children(os.getpid())}
        left = [pid for pid, owner in owners.items() if owner is tree]
        if tree.may_finish:
            tree.ask_rest(left)
        else:
            kill_leftovers(left, tree.monitors_until)
        if left or None not in owners.values() or not tree.scans_left:
            return bool(left)
        # During exec and exit a process shows no environment: it may belong to this tree.
        tree.scans_left -= 1
        return True

    def _owner(self, pid: int) -> Tree | None:
        newest_first = reversed(self._trees.values())  # the pid of an earlier leader may be another's by now
        owner = self._orphans.get(pid) or next((tree for tree in newest_first if tree.owns(pid)), None)
        if owner is None and len(self._trees) == 1 and is_monitor(pid):
            (owner,) = self._trees.values()  # a container without a known name: it can be nobody else's
        if owner:
            self._orphans[pid] = owner
        return owner

    # Ending without hotseat

    def end_all(self, pause: Callable[[], None]) -> None:
        for tree in list(self):
            self.end(tree, LAST_GRACE_S, STOP_LIMIT_S)
        while self._trees:
            pause()
            self.handle_ended()
        monitors_until = time.monotonic() + MONITOR_S
        while self._collect():
            kill_leftovers(children(os.getpid()), monitors_until)
            pause()

    def end(self, tree: Tree, term_s: float, stop_s: float) -> None:
        """Run its `cmdStop`, if it has one; else, or if that fails, send SIGTERM, and SIGKILL after the limit."""
        if not tree.request["stop"]:
            return tree.ask_to_end(term_s)
        if -tree.n in self._trees:  # it runs already
            return None
        try:
            stop = self._trees[-tree.n] = run_stop(tree)
        except OSError:
            return tree.ask_to_end(term_s)
        tree.begin_stop()
        stop.deadline = tree.deadline = time.monotonic() + min(tree.request["unload_timeout_s"], stop_s)
        return None


def run_stop(tree: Tree) -> Tree:
    program, *argv = [word.replace("${PID}", str(tree.pid)) for word in tree.request["stop"]]
    env = {**tree.request["env"], MARKER: f"stop of {tree.n}"}
    pid = run_program(program, argv, env, os.open(os.devnull, os.O_WRONLY))
    return Tree(-tree.n, pid, {"argv": argv, "env": env, "stop": None}, stops=tree)


def kill_leftovers(pids: list[int], monitors_until: float) -> None:
    """Monitors and containers live until then; the monitors have the same time again to remove the containers."""
    late_s = time.monotonic() - monitors_until
    kill_each(to_kill(pids, is_late=late_s > MONITOR_S) if late_s > 0 else [p for p in pids if not is_monitor(p)])
