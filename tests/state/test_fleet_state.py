"""The token and the orders of a fleet host outlive the process and are private."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import PATIENCE_S, come_true

from hotseat.state.fleet_state import FleetState
from hotseat.state.state_file import StateFile
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


HOST = "hotseat/gpu1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "fleet.json"


def state_in(file: Path, host: str = HOST, handed: Mapping[str, Any] | None = None) -> FleetState:
    """Of a process that starts; `handed` is what the one that it replaces has told."""
    return FleetState(StateFile(file), host, handed or {})


def test_the_token_is_the_same_after_a_restart(file: Path) -> None:
    """It is random, and later starts with the same state directory find it."""
    first = state_in(file).token

    assert len(first) == 64
    assert state_in(file).token == first


def test_only_its_user_can_read_the_token(file: Path) -> None:
    """Neither the group nor others may read the file or list its directory."""
    state_in(file)

    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_another_state_directory_has_another_token(file: Path, tmp_path: Path) -> None:
    """A copied configuration does not bring the token with it."""
    assert state_in(file).token != state_in(tmp_path / "other" / "fleet.json").token


@pytest.mark.parametrize("found", [{}, {"token": ""}, {"token": 7}, {"token": "short"}])
def test_a_file_without_a_valid_token_gets_a_new_one(file: Path, found: dict[str, object]) -> None:
    """The new token is saved instead."""
    file.parent.mkdir()
    file.write_text(json.dumps({"format": 1, **found}))
    made = state_in(file).token

    assert len(made) == 64
    assert state_in(file).token == made


def test_a_token_that_cannot_be_saved_is_random(tmp_path: Path) -> None:
    """A host without a writable state directory has a token for this run only."""
    (tmp_path / "state").write_text("a file")
    file = tmp_path / "state" / "fleet.json"

    assert state_in(file).token != state_in(file).token


async def test_orders_are_the_same_after_a_restart(file: Path) -> None:
    """Also if they were taken back; the token is the same too."""
    await kept(state_in(file), "drain", "cordon")
    later = state_in(file)
    assert (later.orders, later.ordered_ms) == (frozenset({"drain", "cordon"}), 2)

    await kept(later)
    assert state_in(file).orders == frozenset()
    assert state_in(file).token == later.token


async def kept(state: FleetState, *orders: str) -> FleetState:
    state.keep_orders(frozenset(orders), len(orders))
    await state.saved()
    return state


async def test_orders_that_have_not_changed_are_not_written_again(file: Path) -> None:
    """The file is as it was."""
    state = await kept(state_in(file), "drain")
    written = file.stat().st_ino
    await kept(state, "drain")

    assert file.stat().st_ino == written


class SlowFile(StateFile):
    """A disk that writes when it is told to, and notes what it was given and by which thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_write = threading.Event()
        self.begun: list[list[str]] = []
        self.threads: set[int] = set()
        self.at_once = self.most_at_once = 0

    def write(self, kept: dict[str, Any]) -> None:
        self.begun.append(kept["orders"])
        self.threads.add(threading.get_ident())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.may_write.wait(PATIENCE_S)
        super().write(kept)
        self.at_once -= 1


async def test_a_disk_that_is_slow(file: Path) -> None:
    """Nothing waits for it but `saved`; writes follow each other, and the last orders are in the file at the end."""
    state_in(file)
    slow = SlowFile(file)
    state = FleetState(slow, HOST, handed={})
    state.keep_orders(frozenset({"drain"}), 1)
    await come_true(lambda: slow.begun)
    for orders in ({"cordon"}, {"cordon", "drain"}, set[str]()):
        state.keep_orders(frozenset(orders), 2)
    saved = Tasks().start(state.saved(), "wait until they are saved")
    assert (state.orders, saved.done()) == (frozenset(), False)
    slow.may_write.set()
    await saved

    assert (slow.begun[0], slow.begun[-1], slow.most_at_once) == (["drain"], [], 1)
    assert threading.get_ident() not in slow.threads
    assert state_in(file).orders == frozenset()


@pytest.mark.parametrize("found", [None, "drain", [7], {"drain": True}])
def test_orders_that_cannot_be_read_count_as_none(file: Path, found: object) -> None:
    """The token is kept."""
    file.parent.mkdir()
    file.write_text(json.dumps({"format": 1, "token": "0" * 64, "host": HOST, "orders": found}))
    state = state_in(file)

    assert (state.token, state.orders) == ("0" * 64, frozenset())


async def test_orders_for_another_name(file: Path) -> None:
    """A host that got another name, or joins another fleet, has the same token and no order."""
    drained = await kept(state_in(file), "drain")
    renamed = state_in(file, "hotseat/gpu2")

    assert (renamed.token, renamed.orders, renamed.ordered_ms) == (drained.token, frozenset(), 0)


async def test_a_process_replaces_another_one_without_a_state_directory(tmp_path: Path) -> None:
    """It gets the token and the orders from the other one."""
    (tmp_path / "state").write_text("a file")
    old = state_in(tmp_path / "state" / "fleet.json")
    await kept(old, "drain")
    new = state_in(tmp_path / "state" / "fleet.json", handed=old.facts())

    assert (new.token, new.orders) == (old.token, old.orders)


async def test_a_file_that_is_newer_than_what_was_handed_over(file: Path) -> None:
    """What the old process says counts: it was the last to know the orders."""
    await kept(state_in(file), "drain")
    new = state_in(file, handed={"host": HOST, "token": "1" * 64, "orders": []})

    assert (new.token, new.orders) == ("1" * 64, frozenset())
