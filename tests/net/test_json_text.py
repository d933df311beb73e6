"""JSON from outside is a value or a ValueError, whatever it contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.too_deep import TOO_DEEP

from hotseat.estimates.report import CannotEstimate
from hotseat.fleet.records import HostRecord, decoded
from hotseat.model_files.usual_folders import ollama_blobs
from hotseat.net.json_text import parsed
from hotseat.simulation.trace import TraceError, parse

if TYPE_CHECKING:
    from pathlib import Path

NESTED = "[" * TOO_DEEP


@pytest.mark.parametrize("text", [NESTED, '{"a":' * TOO_DEEP, "", "{", "nul", "9" * 5000], ids=range(6))
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    """Invalid or too deeply nested JSON, and numbers that are too long, are a ValueError."""
    with pytest.raises(ValueError, match=r"\w"):
        parsed(text)


def test_a_record_of_a_fleet_may_be_nested_as_deeply_as_it_likes() -> None:
    """A record with a deeply nested unknown member is a ValueError."""
    with pytest.raises(ValueError, match="nested too deeply"):
        decoded(f'{{"unknown": {NESTED}'.encode(), HostRecord)


def test_a_trace_may_be_nested_as_deeply_as_it_likes() -> None:
    """A deeply nested trace is an error that names the line."""
    with pytest.raises(TraceError, match="line 2"):
        parse(f'\n{{"t": "model", "name": {NESTED}')


def test_a_manifest_may_be_nested_as_deeply_as_it_likes(tmp_path: Path) -> None:
    """A deeply nested Ollama manifest is an error of the estimate."""
    manifest = tmp_path / "manifest"
    manifest.write_text(NESTED)

    with pytest.raises(CannotEstimate, match="not an Ollama manifest"):
        ollama_blobs(tmp_path, manifest)
