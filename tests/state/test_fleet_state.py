"""The token and the orders of a fleet host outlive the process and are private."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hotseat.state.fleet_state import FleetState
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from pathlib import Path


HOST = "hotseat/gpu1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "fleet.json"


def test_the_token_is_the_same_after_a_restart(file: Path) -> None:
    """It is random, and later starts with the same state directory find it."""
    first = FleetState(StateFile(file), HOST).token

    assert len(first) == 64
    assert FleetState(StateFile(file), HOST).token == first


def test_only_its_user_can_read_the_token(file: Path) -> None:
    """Neither the group nor others may read the file or list its directory."""
    FleetState(StateFile(file), HOST)

    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_another_state_directory_has_another_token(file: Path, tmp_path: Path) -> None:
    """A copied configuration does not bring the token with it."""
    assert (
        FleetState(StateFile(file), HOST).token != FleetState(StateFile(tmp_path / "other" / "fleet.json"), HOST).token
    )


@pytest.mark.parametrize("kept", [{}, {"token": ""}, {"token": 7}, {"token": "short"}])
def test_a_file_without_a_valid_token_gets_a_new_one(file: Path, kept: dict[str, object]) -> None:
    """The new token is saved instead."""
    file.parent.mkdir()
    file.write_text(json.dumps({"format": 1, **kept}))
    made = FleetState(StateFile(file), HOST).token

    assert len(made) == 64
    assert FleetState(StateFile(file), HOST).token == made


def test_a_token_that_cannot_be_saved_is_random(tmp_path: Path) -> None:
    """A host without a writable state directory has a token for this run only."""
    (tmp_path / "state").write_text("a file")
    file = tmp_path / "state" / "fleet.json"

    assert FleetState(StateFile(file), HOST).token != FleetState(StateFile(file), HOST).token


def test_orders_are_the_same_after_a_restart(file: Path) -> None:
    """Also if they were taken back; the token is the same too."""
    FleetState(StateFile(file), HOST).keep_orders(frozenset({"drain", "cordon"}))
    later = FleetState(StateFile(file), HOST)
    assert later.orders == frozenset({"drain", "cordon"})

    later.keep_orders(frozenset())
    assert FleetState(StateFile(file), HOST).orders == frozenset()
    assert FleetState(StateFile(file), HOST).token == later.token


def test_orders_that_have_not_changed_are_not_written_again(file: Path) -> None:
    """The file is as it was."""
    state = FleetState(StateFile(file), HOST)
    state.keep_orders(frozenset({"drain"}))
    written = file.stat().st_ino
    state.keep_orders(frozenset({"drain"}))

    assert file.stat().st_ino == written


@pytest.mark.parametrize("kept", [None, "drain", [7], {"drain": True}])
def test_orders_that_cannot_be_read_count_as_none(file: Path, kept: object) -> None:
    """The token is kept."""
    file.parent.mkdir()
    file.write_text(json.dumps({"format": 1, "token": "0" * 64, "host": HOST, "orders": kept}))
    state = FleetState(StateFile(file), HOST)

    assert (state.token, state.orders) == ("0" * 64, frozenset())


def test_orders_for_another_name(file: Path) -> None:
    """A host that got another name, or joins another fleet, has the same token and no order."""
    drained = FleetState(StateFile(file), HOST)
    drained.keep_orders(frozenset({"drain"}))
    renamed = FleetState(StateFile(file), "hotseat/gpu2")

    assert (renamed.token, renamed.orders) == (drained.token, frozenset())
