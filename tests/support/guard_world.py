"""A world around the guard's decision whom it obeys: hotseat processes that offer, withdraw, take, connect and die.

Ownership is real; processes, sockets and time are not. What a process has sent is read later, in an order that the test
chooses, or never. The world judges by its own books, which are made of what was sent and of the effects alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from hotseat.model_servers.guard_messages import VERSION
from hotseat.model_servers.guard_ownership import Close, EndAll, HandOver, Ownership, Tell

GRACE_S = 10.0
PROCESSES = 3


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass(eq=False)
class Socket:
    """A connection to the guard, of one hotseat process."""

    number: int
    process: int
    unread: list[tuple[Any, ...]] = field(default_factory=list)
    is_cut: bool = False
    """Its process is dead: after what is unread comes the end."""
    is_known: bool = False
    """The guard has it: it was accepted, or came with an offer."""
    is_closed: bool = False
    """By the guard."""
    may_take: bool = False
    """It was offered the servers, or it connected while nobody had them."""
    asked_version: object = None


class GuardWorld:
    def __init__(self, grace_s: float) -> None:
        self.now = 0.0
        self.grace_s = grace_s
        self.is_reachable = True
        self.sockets: dict[int, Socket] = {}
        self.owner: Socket | None = self.socket_of(0)
        self.owner.is_known = True
        self.offered: Socket | None = None
        self.orphaned_at: float | None = None
        self.is_ended = False
        self.ownership = Ownership(0)
        self.ownership.keep_for(0, grace_s)

    def socket_of(self, process: int) -> Socket:
        number = len(self.sockets)
        self.sockets[number] = Socket(number, process)
        return self.sockets[number]

    # What the guard does

    def connect(self, process: int) -> None:
        """A process connects to the guard's socket, which accepts it at once."""
        if not self.ownership.accepts or self.is_ended:
            return
        connected = self.socket_of(process)
        connected.is_known, connected.may_take = True, self.owner is None
        if self.owner is None:
            self.offered = connected
        self.judge(self.ownership.connect(connected.number))

    def read(self, number: int) -> None:
        """The guard reads the next message of a connection, or its end."""
        socket = self.sockets[number]
        if not socket.unread:
            return self.read_end(socket) if socket.is_cut else None
        match socket.unread.pop(0):
            case ("offer", Socket() as candidate):
                return self.read_offer(socket, candidate)
            case ("withdraw",):
                return self.read_withdrawal(socket)
            case ("take", version):
                return self.read_take(socket, version)
            case ("end",):
                return self.read_order_to_end(socket)
            case ("signal",):
                return self.must(self.ownership.obeys(number) == (socket is self.owner), "a signal is the owner's")
        return None

    def read_end(self, socket: Socket) -> None:
        was_owner = socket is self.owner
        if was_owner:
            self.owner, self.orphaned_at = None, self.now
        if socket is self.offered:
            self.offered = None
        socket.may_take = False
        self.judge(self.ownership.close(socket.number, self.now), may_end=was_owner and not self.grace_s)
        self.must(socket.is_closed, "a connection that has ended is closed")

    def read_offer(self, socket: Socket, candidate: Socket) -> None:
        candidate.is_known = True
        if socket is self.owner:
            if self.offered:
                self.offered.may_take = False
            candidate.may_take, self.offered = True, candidate
        self.judge(self.ownership.offer(socket.number, candidate.number))

    def read_withdrawal(self, socket: Socket) -> None:
        if socket is self.owner and self.offered:
            self.offered.may_take, self.offered = False, None
        said = self.judge(self.ownership.withdraw(socket.number))
        is_answered = Tell(socket.number, {"fact": "withdrawn"}) in said
        self.must(is_answered == (socket is self.owner), "a withdrawal is answered, to the owner only")

    def read_take(self, socket: Socket, version: object) -> None:
        socket.asked_version = version
        is_owner = socket is self.owner
        self.judge(self.ownership.take(socket.number, version))
        is_decided = is_owner or socket is self.owner or socket.is_closed
        self.must(is_decided, "whoever asks to take is obeyed from then on, or refused")

    def read_order_to_end(self, socket: Socket) -> None:
        self.judge(self.ownership.end(socket.number), may_end=socket is self.owner)
        self.must(self.is_ended or socket is not self.owner, "an owner can end everything")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        is_over = self.orphaned_at is not None and self.now - self.orphaned_at >= self.grace_s
        is_lost = self.orphaned_at is not None and not self.is_reachable and self.offered is None
        self.judge(self.ownership.pass_time(self.now, self.is_reachable), may_end=is_over or is_lost)
        self.must(self.is_ended or not is_over, "what nobody has taken in time is ended")

    # The judge

    def judge(self, effects: list[Any], may_end: bool = False) -> list[Any]:
        for effect in effects:
            match effect:
                case Close(number):
                    self.must(not self.sockets[number].is_closed, "a connection is closed once")
                    self.sockets[number].is_closed = True
                    if self.sockets[number] is self.offered:  # it was refused
                        self.offered = None
                case HandOver(number, was_orphaned):
                    self.judge_take(self.sockets[number], was_orphaned, effects)
                case EndAll():
                    self.must(may_end and not self.is_ended, "nothing ends while somebody has it, or may still take it")
                    self.is_ended, self.owner, self.orphaned_at = True, None, None
        self.judge_state()
        return effects

    def judge_take(self, taker: Socket, was_orphaned: bool, effects: list[Any]) -> None:
        self.must(taker.may_take and not taker.is_closed, "only a candidate takes")
        self.must(taker.asked_version == VERSION, "only a candidate that asked takes")
        self.must(was_orphaned == (self.owner is None), "the taker learns whether there was an owner")
        if self.owner:
            self.must(Tell(self.owner.number, {"fact": "taken"}) in effects, "the former owner learns it")
            self.must(self.owner.is_closed, "the former owner is closed")
        self.owner, self.offered, self.orphaned_at = taker, None, None
        taker.may_take = False

    def judge_state(self) -> None:
        obeyed = [number for number in self.sockets if self.ownership.obeys(number)]
        self.must(obeyed == ([] if self.owner is None else [self.owner.number]), f"only the owner is obeyed: {obeyed}")
        known = {each.number for each in self.sockets.values() if each.is_known and not each.is_closed}
        self.must(self.is_ended or known == {*self.ownership.connections}, "every connection is read or closed")

    def must(self, fact: bool, promise: str) -> None:
        if not fact:
            raise Broken(promise)


class GuardChaos(RuleBasedStateMachine):
    """Anybody does anything at any time, whether or not it is its turn."""

    grace_s: float = GRACE_S
    process = st.integers(0, PROCESSES - 1)
    who = st.tuples(st.sampled_from(("the owner", "the newest", "anybody")), st.integers(0, 9))

    def __init__(self) -> None:
        super().__init__()
        self.world = GuardWorld(self.grace_s)

    def socket_of(self, who: tuple[str, int]) -> Socket | None:
        """Whose process lives; the guard may have closed it."""
        role, number = who
        sockets = [each for each in self.world.sockets.values() if not each.is_cut]
        if role == "the owner" and self.world.owner in sockets:
            return self.world.owner
        return sockets[-1 if role == "the newest" else number % len(sockets)] if sockets else None

    def send(self, who: tuple[str, int], words: tuple[Any, ...], is_read: bool) -> None:
        """With `is_read` the guard reads all that there is, as it does unless it is busy."""
        if socket := self.socket_of(who):
            is_offer = words[0] == "offer"
            socket.unread.append(("offer", self.world.socket_of(words[1])) if is_offer else words)
        while is_read and not self.world.is_ended and (waiting := self.unread_ones()):
            self.world.read(waiting[0])

    def unread_ones(self) -> list[int]:
        return [number for number in self.world.ownership.connections if self.world.sockets[number].unread]

    @rule(who=who, to=process, is_read=st.booleans())
    def offer(self, who: tuple[str, int], to: int, is_read: bool) -> None:
        self.send(who, ("offer", to), is_read)

    @rule(who=who, is_read=st.booleans())
    def withdraw(self, who: tuple[str, int], is_read: bool) -> None:
        self.send(who, ("withdraw",), is_read)

    @rule(who=who, version=st.sampled_from((VERSION, VERSION, VERSION + 1, None)), is_read=st.booleans())
    def take(self, who: tuple[str, int], version: object, is_read: bool) -> None:
        self.send(who, ("take", version), is_read)

    @rule(who=who, is_read=st.booleans())
    def signal(self, who: tuple[str, int], is_read: bool) -> None:
        self.send(who, ("signal",), is_read)

    @rule(who=who, is_meant=st.integers(0, 19))
    def end(self, who: tuple[str, int], is_meant: int) -> None:
        if not is_meant:
            self.send(who, ("end",), is_read=False)

    @rule(process=process, is_meant=st.integers(0, 2))
    def die(self, process: int, is_meant: int) -> None:
        """Another process with the same number starts at once, without any connection."""
        for socket in self.world.sockets.values():
            socket.is_cut = socket.is_cut or (socket.process == process and not is_meant)

    @rule(process=process)
    def connect(self, process: int) -> None:
        self.world.connect(process)

    @precondition(lambda self: not self.world.is_ended)
    @rule(choice=st.integers(0, 9), count=st.integers(1, 6))
    def read(self, choice: int, count: int) -> None:
        for each in range(count):
            if known := self.world.ownership.connections:
                self.world.read(known[(choice + each) % len(known)])

    @precondition(lambda self: not self.world.is_ended)
    @rule(seconds=st.sampled_from((0.0, 1.0, GRACE_S)))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(is_reachable=st.sampled_from((True, True, True, False)))
    def change_name(self, is_reachable: bool) -> None:
        self.world.is_reachable = is_reachable
