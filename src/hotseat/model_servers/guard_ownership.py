"""PURE: whom the guard obeys. Events go in, effects come out; guard_process.py carries them out.

At any moment at most one connection is obeyed: the owner's. A candidate becomes the owner in a single step, and only if
the owner offered the servers to it, or if there is no owner. Used by the guard: standard library only.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from hotseat.model_servers.guard_messages import VERSION

Connection: TypeAlias = int
"""A number that is never used again."""

HAS_OWNER = "another hotseat process has these model servers"


class Owned(NamedTuple):
    owner: Connection


class Offered(NamedTuple):
    """The owner allows one candidate to become the owner."""

    owner: Connection
    candidate: Connection


class Orphaned(NamedTuple):
    """The owner is gone without having ended the servers; they are kept for a while."""

    until: float
    candidate: Connection | None


class Ending(NamedTuple):
    """Nobody is obeyed any more."""


State: TypeAlias = Owned | Offered | Orphaned | Ending


class Tell(NamedTuple):
    to: Connection
    content: dict[str, Any]


class Close(NamedTuple):
    """Read nothing more of it, and close it when all that it was sent has left."""

    connection: Connection


class HandOver(NamedTuple):
    """Send it all processes: it is the owner now."""

    to: Connection
    was_orphaned: bool


class EndAll(NamedTuple):
    """End every process."""


Effect: TypeAlias = Tell | Close | HandOver | EndAll


class Ownership:
    def __init__(self, owner: Connection) -> None:
        self.state: State = Owned(owner)
        self._grace_s = 0.0

    def obeys(self, connection: Connection) -> bool:
        match self.state:
            case Owned(owner) | Offered(owner, _):
                return owner == connection
        return False

    @property
    def connections(self) -> list[Connection]:
        """Whose messages are read, in this order: what an owner said before its end counts before a candidate."""
        match self.state:
            case Owned(owner):
                return [owner]
            case Offered(owner, candidate):
                return [owner, candidate]
            case Orphaned(_, int(candidate)):
                return [candidate]
        return []

    @property
    def accepts(self) -> bool:
        """False: whoever connects now waits, because there is a candidate already."""
        match self.state:
            case Orphaned(_, candidate):
                return candidate is None
        return True

    # What an owner says

    def keep_for(self, by: Connection, grace_s: float) -> list[Effect]:
        """How long the servers are kept if the owner's connection closes; 0: not at all."""
        if self.obeys(by):
            self._grace_s = grace_s
        return []

    def offer(self, by: Connection, candidate: Connection) -> list[Effect]:
        """At most one candidate: a new one replaces the former."""
        if not self.obeys(by):
            return [Close(candidate)]
        former = self._close_candidate()
        self.state = Offered(by, candidate)
        return former

    def withdraw(self, by: Connection) -> list[Effect]:
        if not self.obeys(by):
            return []
        closed = self._close_candidate()
        self.state = Owned(by)
        return [*closed, Tell(by, {"fact": "withdrawn"})]

    def end(self, by: Connection) -> list[Effect]:
        """The owner ends everything, as it does when hotseat is stopped."""
        return self._end() if self.obeys(by) else []

    # What a candidate does

    def connect(self, connection: Connection) -> list[Effect]:
        """Somebody has connected without an offer: that is for orphans only."""
        match self.state:
            case Orphaned(until, None):
                self.state = Orphaned(until, connection)
                return []
        return refuse(connection, HAS_OWNER)

    def take(self, by: Connection, version: object) -> list[Effect]:
        if self.obeys(by):
            return []
        if version != VERSION:
            self._leave(by)
            return refuse(by, f"this guard knows version {VERSION} of the protocol, not {version}")
        match self.state:
            case Offered(owner, candidate) if candidate == by:
                self.state = Owned(by)
                return [Tell(owner, {"fact": "taken"}), Close(owner), HandOver(by, was_orphaned=False)]
            case Orphaned(_, candidate) if candidate == by:
                self.state = Owned(by)
                return [HandOver(by, was_orphaned=True)]
        return refuse(by, HAS_OWNER)

    # What happens to connections, and time

    def close(self, connection: Connection, now: float) -> list[Effect]:
        """The other side is gone."""
        gone: list[Effect] = [Close(connection)]
        if not self.obeys(connection):
            self._leave(connection)
            return gone
        if not self._grace_s:
            return gone + self._end()
        self.state = Orphaned(now + self._grace_s, self._candidate)
        return gone

    def pass_time(self, now: float, is_reachable: bool) -> list[Effect]:
        """Orphans that nobody can reach any more are not kept: the next hotseat may need their memory."""
        match self.state:
            case Orphaned(until, candidate) if now >= until or not (is_reachable or candidate is not None):
                return self._end()
        return []

    def _end(self) -> list[Effect]:
        closed = self._close_candidate()
        self.state = Ending()
        return [*closed, EndAll()]

    @property
    def _candidate(self) -> Connection | None:
        match self.state:
            case Offered(_, candidate) | Orphaned(_, candidate):
                return candidate
        return None

    def _close_candidate(self) -> list[Effect]:
        return [] if self._candidate is None else [Close(self._candidate)]

    def _leave(self, connection: Connection) -> None:
        """It is no candidate any more, if it was one."""
        match self.state:
            case Offered(owner, candidate) if candidate == connection:
                self.state = Owned(owner)
            case Orphaned(until, candidate) if candidate == connection:
                self.state = Orphaned(until, None)


def refuse(connection: Connection, reason: str) -> list[Effect]:
    return [Tell(connection, {"fact": "refused", "version": VERSION, "reason": reason}), Close(connection)]
