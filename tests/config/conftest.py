"""A scratch directory for configuration files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.config_files import Desk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)
