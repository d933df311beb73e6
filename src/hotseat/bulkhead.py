"""An error of ours stays where it happened: it is logged with its traceback, and whoever comes next goes on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

P = ParamSpec("P")


def attempt(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call; False where it raised."""
    try:
        call(*args, **kwargs)
    except Exception:
        log.exception("an error in hotseat itself call=%s", getattr(call, "__qualname__", call))
        return False
    return True
