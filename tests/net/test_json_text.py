"""JSON of others is a value or a ValueError, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotseat.estimates.report import CannotEstimate
from hotseat.fleet.records import HostRecord, decoded
from hotseat.model_files import ollama
from hotseat.net.json_text import parsed
from hotseat.simulation.trace import TraceError, parse

if TYPE_CHECKING:
    from pathlib import Path

NESTED = "[" * 200_000


@pytest.mark.parametrize("text", [NESTED, '{"a":' * 200_000, "", "{", "nul", "9" * 5000], ids=range(6))
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    """Also where the parser itself gives up."""
    with pytest.raises(ValueError, match=r"\w"):
        parsed(text)


def test_a_record_of_a_fleet_may_be_nested_as_deeply_as_it_likes() -> None:
    """Members that we do not know are passed over by the decoder, which gives up at some depth."""
    with pytest.raises(ValueError, match="nested too deeply"):
        decoded(f'{{"unknown": {NESTED}'.encode(), HostRecord)


def test_a_trace_may_be_nested_as_deeply_as_it_likes() -> None:
    """The error names the line."""
    with pytest.raises(TraceError, match="line 2"):
        parse(f'\n{{"t": "model", "name": {NESTED}')


def test_a_manifest_may_be_nested_as_deeply_as_it_likes(tmp_path: Path) -> None:
    """A damaged store costs its models, not the search."""
    manifest = tmp_path / "manifest"
    manifest.write_text(NESTED)

    with pytest.raises(CannotEstimate, match="not an Ollama manifest"):
        ollama.blobs(tmp_path, manifest)
