"""Threads that receive no signals: the main thread alone handles them, or holds them for the process that follows."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")


def start_thread(name: str, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> threading.Thread:
    """A daemon: it ends with the process."""
    thread = threading.Thread(target=call, args=args, kwargs=kwargs, name=name, daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # inherited by the thread
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
