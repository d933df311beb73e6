"""Writes configuration files and reads them at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hotseat.config.load import Loaded, read
from hotseat.config.problems import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigFiles:
    """Writes files into one folder and reads them as one configuration. Errors and warnings are returned as texts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, text: str) -> Path:
        (self._directory / name).parent.mkdir(parents=True, exist_ok=True)
        (self._directory / name).write_text(text, encoding="utf-8")
        return Path(name)

    def load(self, text: str, environ: Mapping[str, str] | None = None, *, lenient: bool = False) -> Loaded:
        return read([self.write("config.yaml", text)], environ=environ or {}, lenient=lenient)

    def mistakes(self, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        """The errors and warnings of a file that must not load."""
        with pytest.raises(ConfigError) as refused:
            self.load(text, environ)
        return list(map(str, refused.value.problems))

    def warnings(self, text: str, *, lenient: bool = False) -> list[str]:
        """The warnings about a file that loads."""
        return list(map(str, self.load(text, lenient=lenient).problems))
