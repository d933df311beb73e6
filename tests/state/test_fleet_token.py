"""The token of a fleet host outlives the process and is private."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hotseat.state.fleet_token import fleet_token
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "fleet.json"


def test_the_token_is_the_same_after_a_restart(file: Path) -> None:
    """It is random, and later starts with the same state directory find it."""
    first = fleet_token(StateFile(file))

    assert len(first) == 64
    assert fleet_token(StateFile(file)) == first


def test_only_its_user_can_read_the_token(file: Path) -> None:
    """Neither the group nor others may read the file or list its directory."""
    fleet_token(StateFile(file))

    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_another_state_directory_has_another_token(file: Path, tmp_path: Path) -> None:
    """A copied configuration does not bring the token with it."""
    assert fleet_token(StateFile(file)) != fleet_token(StateFile(tmp_path / "other" / "fleet.json"))


@pytest.mark.parametrize("kept", [{}, {"token": ""}, {"token": 7}, {"token": "short"}])
def test_a_file_without_a_valid_token_gets_a_new_one(file: Path, kept: dict[str, object]) -> None:
    """The new token is saved instead."""
    file.parent.mkdir()
    file.write_text(json.dumps({"format": 1, **kept}))
    made = fleet_token(StateFile(file))

    assert len(made) == 64
    assert fleet_token(StateFile(file)) == made


def test_a_token_that_cannot_be_saved_is_random(tmp_path: Path) -> None:
    """A host without a writable state directory has a token for this run only."""
    (tmp_path / "state").write_text("a file")
    file = tmp_path / "state" / "fleet.json"

    assert fleet_token(StateFile(file)) != fleet_token(StateFile(file))
