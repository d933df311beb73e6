"""Threads that receive no signals: the main thread alone handles them, or holds them for the process that follows.

What may never return, such as reading a file of a network disk that is gone, runs in a daemon thread of its own: in an
executor it would block other calls and our exit.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hotseat.identifiers import Seconds

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

DISK_S: Seconds = 30.0
"""For a disk to answer before a start: some need ten seconds to spin up."""
_looking: set[Hashable] = set()
"""The places of `look_at_disk` in progress, which may hang: one each."""
MOST_HANGING = 8
_hanging: set[Hashable] = set()
"""The places of calls that have not returned in time, and still have not."""
MOST_IDLE = 2
_idle: list[SimpleQueue[tuple[Future[Any], Callable[[], Any]]]] = []
"""Of threads that wait for another call: to start one takes longer than most calls, and there may be 10,000 models."""


def start_thread(name: str, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> threading.Thread:
    """A daemon: it ends with the process."""
    thread = threading.Thread(target=call, args=args, kwargs=kwargs, name=name, daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # inherited by the thread
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread


async def in_thread(name: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like asyncio.to_thread, for what may hang. Whoever calls it limits the number of calls."""
    return await asyncio.wrap_future(begun(name, lambda: call(*args, **kwargs)))


def begun(name: str, call: Callable[[], T]) -> Future[T]:
    """A call in a thread of its own, which nobody can cancel: any number may wait for its answer, and give up."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()
    start_thread(name, _settle, answer, call)
    return answer


async def look_at_disk(place: Hashable, call: Callable[[], T]) -> T:
    """For the event loop. TimeoutError: the disk does not respond; at once while an earlier look at this place hangs.

    Places are what is configured, so they are few, and one that hangs holds up no other.
    """

    def look() -> T:
        _looking.add(place)
        try:
            return call()
        finally:
            _looking.discard(place)

    if place not in _looking:
        with suppress(TimeoutError):
            async with asyncio.timeout(DISK_S):
                return await in_thread("look at the disk", look)
    raise TimeoutError(f"the disk has not responded within {DISK_S:g} s")


def within(limit_s: Seconds, what: str, place: Hashable, call: Callable[[], T]) -> T | None:
    """What `call` returns; None if it takes longer, and at once while another call hangs at this place."""
    if place in _hanging or len(_hanging) >= MOST_HANGING:
        return None
    answer: Future[T] = Future()
    try:
        calls = _idle.pop()
    except IndexError:
        calls = SimpleQueue()
        start_thread("read files", _carry_out, calls)
    calls.put((answer, call))
    try:
        return answer.result(limit_s)
    except TimeoutError:
        if answer.done():
            return answer.result()  # just in time, or an error of its own
    log.warning("files cannot be read because the disk does not respond of=%s limit_s=%g", what, limit_s)
    _hanging.add(place)
    answer.add_done_callback(lambda _: _hanging.discard(place))
    return None


def _carry_out(calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
    while True:
        _settle(*calls.get())
        if len(_idle) >= MOST_IDLE:
            return
        _idle.append(calls)


def _settle(answer: Future[T], call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as problem:
        answer.set_exception(problem)
