"""`hotseat run ORG/REPO`: which model is meant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import put

from hotseat.cli.run_reference import pulled
from hotseat.downloads.reference import parse

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("org/repo/m-Q8_0.gguf", "org/repo/m-Q4_K_M.gguf", "org/other/x.gguf", "plain.gguf"):
        os.utime(put(tmp_path / name), (0, 0))
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("org/repo", "m-Q4_K_M"),
        ("org/repo:q8_0", "m-Q8_0"),
        ("org/repo:m-Q8_0.gguf", "m-Q8_0"),
        ("org/repo:Q2_K", ""),
        ("org/other", "x"),
        ("org/absent", ""),
        ("https://host/plain.gguf", "plain"),
    ],
)
def test_what_was_pulled_before_is_found_without_the_hub(folder: Path, reference: str, name: str) -> None:
    """The usual quantisation comes first."""
    assert pulled(parse(reference), folder) == name


async def test_a_configured_name_with_a_slash_is_no_reference(command_line: CommandLine) -> None:
    """It goes to the model; nothing is pulled."""
    said = await command_line.type("run", "org/llama", "hello")

    assert "hub" not in said.err
    assert "ORG/REPO" not in said.err
