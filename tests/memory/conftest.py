"""A fake driver below the real NVML bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pynvml
import pytest
from tests.support.machines import MACHINES_OWN, link

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.nvml import Driver


class Install(Protocol):
    def __call__(self, driver: Driver) -> Any: ...


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a driver below the bindings; returns the bindings."""
    pynvml._nvmlGetFunctionPointer_cache.clear()

    def put(driver: Driver) -> Any:
        monkeypatch.setattr(pynvml, "nvmlLib", driver)
        return pynvml

    yield put
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc outside of any container."""
    folder = tmp_path / "proc"
    link(folder / "self/ns/pid", MACHINES_OWN)
    return folder
