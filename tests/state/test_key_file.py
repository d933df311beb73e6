"""keys.json: what is stored, how strictly it is read, and that a change is complete or did not happen."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually

from hotseat.settings import ApiKey, Budget, Role
from hotseat.state.key_file import KeyFile, UnreadableKeys, created_keys_of
from hotseat.state.state_file import LOCK

if TYPE_CHECKING:
    from pathlib import Path

ANN = ApiKey("", Role.ADMIN, "ann", "a" * 64)
LIMITS = (Budget(60, 60.0), Budget(2_000_000, 86400.0), 4, True)
BOB = ApiKey("", Role.INFERENCE, "bob@example.org", "b" * 64, ("qwen", "org/llama"), *LIMITS)
ENTRY: dict[str, Any] = {
    "name": "ann",
    "hash": f"sha256:{'a' * 64}",
    "role": "admin",
    "models": [],
    "requests": None,
    "tokens": None,
    "concurrencyLimit": 0,
    "priority": "interactive",
}


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "state" / "keys.json")


def test_what_was_stored_is_read_again(file: KeyFile) -> None:
    """Another process finds the same keys, and nobody else may read their hashes."""
    written = file.change(lambda keys: (*keys, ANN, BOB))

    assert written == KeyFile(file.path).read() == (ANN, BOB)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in file.path.parent.iterdir()) == [LOCK, "keys.json"]


def test_no_file_means_no_keys(file: KeyFile, tmp_path: Path) -> None:
    """Most installations have none, and some have no state directory."""
    (tmp_path / "a file").touch()
    assert file.read() == ()
    assert KeyFile(tmp_path / "a file" / "keys.json").read() == ()
    assert created_keys_of({"STATE_DIRECTORY": str(tmp_path)}) == ()


def test_an_entry_has_the_form_of_the_configuration(file: KeyFile) -> None:
    """It can be moved to `apiKeys`."""
    file.change(lambda _: (ANN,))

    assert json.loads(file.path.read_text()) == {"format": 1, "keys": [ENTRY]}


BROKEN = {
    "not JSON": b"{",
    "another format": json.dumps({"format": 2, "keys": []}).encode(),
    "no list": json.dumps({"format": 1}).encode(),
    "not an object": json.dumps({"format": 1, "keys": ["ann"]}).encode(),
    "an unknown member": json.dumps({"format": 1, "keys": [{**ENTRY, "expires": 1}]}).encode(),
    "an empty name": json.dumps({"format": 1, "keys": [{**ENTRY, "name": ""}]}).encode(),
    "no hash": json.dumps({"format": 1, "keys": [{**ENTRY, "hash": ""}]}).encode(),
    "an unknown role": json.dumps({"format": 1, "keys": [{**ENTRY, "role": "root"}]}).encode(),
    "models that are no list": json.dumps({"format": 1, "keys": [{**ENTRY, "models": "qwen"}]}).encode(),
    "a negative limit": json.dumps({"format": 1, "keys": [{**ENTRY, "concurrencyLimit": -1}]}).encode(),
    "a budget that is none": json.dumps({"format": 1, "keys": [{**ENTRY, "requests": "many"}]}).encode(),
    "a budget that is a number": json.dumps({"format": 1, "keys": [{**ENTRY, "tokens": 5}]}).encode(),
    "an unknown priority": json.dumps({"format": 1, "keys": [{**ENTRY, "priority": "high"}]}).encode(),
    "a limit that is no number": json.dumps({"format": 1, "keys": [{**ENTRY, "concurrencyLimit": True}]}).encode(),
    "the same key twice": json.dumps({"format": 1, "keys": [ENTRY, {**ENTRY, "name": "bob"}]}).encode(),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_file_is_an_error(file: KeyFile, text: bytes) -> None:
    """It never counts as empty, the message names it, and no change overwrites it."""
    file.path.parent.mkdir()
    file.path.write_bytes(text)

    with pytest.raises(UnreadableKeys, match=str(file.path)):
        file.read()
    with pytest.raises(UnreadableKeys):
        file.change(lambda keys: keys)
    assert file.path.read_bytes() == text


def test_a_folder_in_place_of_the_file(file: KeyFile) -> None:
    """What cannot be read is an error, whatever the reason."""
    file.path.mkdir(parents=True)

    with pytest.raises(UnreadableKeys):
        file.read()


def test_a_change_that_cannot_be_written(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old keys stay, and nothing is left beside them."""
    file.change(lambda _: (ANN,))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.change(lambda keys: (*keys, BOB))
    assert file.read() == (ANN,)
    assert sorted(path.name for path in file.path.parent.iterdir()) == [LOCK, "keys.json"]


def test_two_processes_that_change_the_file_at_once(file: KeyFile) -> None:
    """The second one waits for the first, so that no change is lost."""
    first_is_there, may_go_on = threading.Event(), threading.Event()

    def slowly(keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
        first_is_there.set()
        assert may_go_on.wait(60)
        return (*keys, ANN)

    first = threading.Thread(target=file.change, args=[slowly])
    second = threading.Thread(target=KeyFile(file.path).change, args=[lambda keys: (*keys, BOB)])
    first.start()
    assert first_is_there.wait(60)
    second.start()
    may_go_on.set()
    eventually(lambda: not (first.is_alive() or second.is_alive()))

    assert file.read() == (ANN, BOB)
