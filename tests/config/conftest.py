"""A scratch directory for configuration files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.config_files import ConfigFiles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigFiles:
    monkeypatch.chdir(tmp_path)
    return ConfigFiles(tmp_path)
