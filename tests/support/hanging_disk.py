"""A network disk that is gone: whoever looks at it waits."""

from __future__ import annotations

import builtins
import io
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually

from hotseat import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOOKS = ("access", "listdir", "lstat", "open", "readlink", "scandir", "stat")


@contextmanager
def hanging(folder: Path) -> Iterator[list[str]]:
    """Threads that look at what is below this folder wait until the end of the block; the event loop must not look.

    The list is of what they wait for.
    """
    responds, on_the_loop, waited_for = threading.Event(), list[str](), list[str]()

    def waiting(look: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **options: Any) -> Any:
            if not isinstance(path, int) and os.fsdecode(path).startswith(str(folder)):
                if threading.current_thread() is threading.main_thread():
                    on_the_loop.append(f"{look.__name__} {path}")
                    raise AssertionError(on_the_loop[-1])
                waited_for.append(f"{look.__name__} {path}")
                responds.wait()
            return look(path, *args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (*((os, name) for name in LOOKS), (io, "open"), (builtins, "open")):
            patch.setattr(module, name, waiting(getattr(module, name)))
        try:
            yield waited_for
        finally:
            responds.set()
    eventually(lambda: not (threads._hanging or threads._looking))
    assert on_the_loop == []
