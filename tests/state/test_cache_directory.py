"""Where files are kept that can be made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotseat.state.cache_directory import conversations_directory


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"CACHE_DIRECTORY": "/var/cache/hotseat:/more", "HOME": "/root"}, "/var/cache/hotseat/conversations"),
        ({"XDG_CACHE_HOME": "/data/cache", "HOME": "/home/ada"}, "/data/cache/hotseat/conversations"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/ada"}, "/home/ada/.cache/hotseat/conversations"),
        ({"HOME": "/home/ada"}, "/home/ada/.cache/hotseat/conversations"),
    ],
)
def test_the_place_is_the_usual_one(environ: dict[str, str], folder: str) -> None:
    """Under systemd its cache directory, else the user's."""
    assert conversations_directory(environ) == Path(folder)
