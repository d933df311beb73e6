"""A change of a file is reported once, when it is complete."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from tests.support.hanging_disk import hanging
from tests.support.waiting import come_true

from hotseat.config.watch import Watch
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path


def looks(watch: Watch, times: int = 3) -> list[bool]:
    return [watch.has_changed() for _ in range(times)]


def test_a_file_that_stays_as_it_is(tmp_path: Path) -> None:
    """Polling an unchanged file reports nothing."""
    (tmp_path / "c.yaml").write_text("a")

    assert looks(Watch([tmp_path / "c.yaml"])) == [False, False, False]


def test_a_change_counts_once_and_not_before_it_has_stood_for_a_look(tmp_path: Path) -> None:
    """A file that is still being written is ignored."""
    file = tmp_path / "c.yaml"
    file.write_text("a")
    watch = Watch([file])
    file.write_text("ab")
    first = watch.has_changed()
    file.write_text("abc")

    assert [first, *looks(watch)] == [False, False, True, False]


def test_a_file_that_is_replaced_and_a_link_that_is_turned(tmp_path: Path) -> None:
    """Editors rename, Kubernetes switches symlinks; both are changes, whatever the mtime."""
    old, new, link = tmp_path / "old.yaml", tmp_path / "new.yaml", tmp_path / "c.yaml"
    old.write_text("a")
    new.write_text("b")
    os.utime(new, ns=(old.stat().st_mtime_ns, old.stat().st_mtime_ns))
    link.symlink_to(old)
    watch = Watch([link])
    (tmp_path / "turned").symlink_to(new)
    (tmp_path / "turned").rename(link)

    assert looks(watch) == [False, True, False]


def test_a_file_that_is_away_for_a_moment_is_no_reason_to_reload(tmp_path: Path) -> None:
    """Some editors delete first and then write."""
    file = tmp_path / "c.yaml"
    file.write_text("a")
    watch = Watch([file])
    content, stamp = file.read_text(), file.stat().st_mtime_ns
    aside = file.rename(tmp_path / "aside")
    gone = watch.has_changed()
    aside.rename(file)

    assert (content, stamp) == (file.read_text(), file.stat().st_mtime_ns)
    assert [gone, *looks(watch)] == [False, False, False, False]


async def test_a_disk_that_does_not_respond(tmp_path: Path) -> None:
    """The event loop does not wait for it; the change is noticed when the disk is back."""
    file, changes = tmp_path / "c.yaml", list[str]()
    file.write_text("a")
    watch, tasks = Watch([file]), Tasks()

    async def changed() -> None:
        changes.append(file.read_text())

    with hanging(tmp_path):
        tasks.start(watch.follow(changed, "watch", 0.001), "watch")
        await come_true(lambda: [each for each in threading.enumerate() if each.name == "look for changes"])
    file.write_text("ab")
    await come_true(lambda: changes)
    await tasks.aclose()

    assert changes == ["ab"]


def test_a_folder_is_its_files(tmp_path: Path) -> None:
    """A new file is a change; other kinds of files are not."""
    (tmp_path / "a.yaml").write_text("a")
    watch = Watch([tmp_path])
    (tmp_path / "notes.txt").write_text("x")
    before = looks(watch)
    (tmp_path / "b.yml").write_text("b")

    assert (before, looks(watch)) == ([False, False, False], [False, True, False])
