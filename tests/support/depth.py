"""The size of generated tests: small in every run, large in `just deep`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def by_depth(usual: T, deep: T) -> T:
    return deep if IS_DEEP else usual
