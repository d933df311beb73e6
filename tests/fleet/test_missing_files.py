"""Which models of a host lack a file."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.support.fake_launcher import catalog, spec
from tests.support.waiting import come_true

from hotseat import threads
from hotseat.catalog.spec import LaunchRecipe
from hotseat.fleet import missing_files
from hotseat.fleet.missing_files import MissingFiles
from hotseat.model_files import of_command
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec


def llama(name: str, file: Path, **known: Any) -> ModelSpec:
    return replace(spec(name), recipe=LaunchRecipe(("llama-server", "-m", str(file)), "http://127.0.0.1", **known))


class Rig:
    def __init__(self, *specs: ModelSpec) -> None:
        self.catalog: Catalog = catalog(*specs)
        self.changes = 0
        self.files = MissingFiles(lambda: self.catalog, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        tasks = Tasks()
        tasks.start(self.files.keep_looking(), "look")
        yield
        await tasks.aclose()


async def test_a_model_without_its_file_is_found(tmp_path: Path) -> None:
    """It is listed with the file; a model that has its file, and one whose file is unknown, are not."""
    (tmp_path / "there.gguf").touch()
    rig = Rig(llama("chat", tmp_path / "chat.gguf"), llama("code", tmp_path / "there.gguf"), spec("other"))
    await rig.files.look_first()

    assert rig.files.by_model == {"chat": str(tmp_path / "chat.gguf")}
    assert rig.changes == 1


async def test_a_file_that_was_copied_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is looked at again and again."""
    monkeypatch.setattr(missing_files, "LOOK_S", 0.01)
    rig = Rig(llama("chat", tmp_path / "chat.gguf"))
    await rig.files.look_first()
    async with rig.looking():
        (tmp_path / "chat.gguf").touch()
        await come_true(lambda: not rig.files.by_model)

    assert rig.changes == 2


async def test_a_change_of_the_configuration_is_looked_at_soon(tmp_path: Path) -> None:
    """Another command needs another file, and the model that was removed needs none."""
    rig = Rig(llama("chat", tmp_path / "chat.gguf"), llama("gone", tmp_path / "gone.gguf"))
    await rig.files.look_first()
    async with rig.looking():
        rig.catalog = catalog(llama("chat", tmp_path / "new.gguf"))
        rig.files.look_soon()
        await come_true(lambda: rig.files.by_model == {"chat": str(tmp_path / "new.gguf")})


async def test_a_disk_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host joins without knowing, and the event loop is never held up."""
    stuck = threading.Event()
    monkeypatch.setattr(missing_files, "FIRST_S", 0.01)
    monkeypatch.setattr(of_command, "is_missing", lambda _: stuck.wait())
    rig = Rig(llama("chat", tmp_path / "chat.gguf"))
    await rig.files.look_first()
    stuck.set()

    assert rig.files.by_model == {}


async def test_one_disk_of_two_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other one lacks is found all the same, and again at each look."""
    stuck = threading.Event()
    monkeypatch.setattr(missing_files, "DISK_S", 0.2)
    monkeypatch.setattr(missing_files, "LOOK_S", 0.01)
    monkeypatch.setattr(
        of_command, "is_missing", lambda file: stuck.wait() if "gone" in str(file) else not file.exists()
    )
    rig = Rig(llama("gone", tmp_path / "gone" / "a.gguf"), llama("chat", tmp_path / "chat.gguf"))
    try:
        async with rig.looking():
            await come_true(lambda: rig.files.by_model == {"chat": str(tmp_path / "chat.gguf")})
            (tmp_path / "chat.gguf").touch()
            await come_true(lambda: not rig.files.by_model)
    finally:
        stuck.set()
        await come_true(lambda: not threads._hanging)


async def test_a_path_with_a_secret_is_not_published(tmp_path: Path) -> None:
    """Values from the environment never leave the host."""
    rig = Rig(llama("chat", tmp_path / "hush-hush.gguf", secrets=("hush-hush",)))
    await rig.files.look_first()

    assert rig.files.by_model == {}


async def test_a_host_without_its_disk(tmp_path: Path) -> None:
    """The record stays small, however many models lack their files."""
    rig = Rig(*(llama(f"m{n}", tmp_path / f"{n}.gguf") for n in range(missing_files.MOST + 50)))
    await rig.files.look_first()

    assert len(rig.files.by_model) == missing_files.MOST


async def test_commands_that_name_no_file_cost_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without such models never reads its disk."""
    started: list[object] = []
    monkeypatch.setattr(missing_files, "in_thread", started.append)
    await Rig(spec("other")).files.look_first()

    assert started == []
