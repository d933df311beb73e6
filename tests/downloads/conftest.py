"""A hub on this machine, as huggingface_hub's own environment variables would select it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.local_hub import Content, LocalHub, local_hub, use

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 3 << 20


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """With one repository of one file that is no model: 3 MiB of which the first bytes are known."""
    with local_hub({"test/one": {"m.gguf": Content(b"begin" + bytes(range(256)) * 64, SIZE)}}, "hf_secret") as hub:
        use(hub, tmp_path / "hub", monkeypatch)
        yield hub
