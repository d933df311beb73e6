"""A change of a file is reported once, when it is complete."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hotseat.config.watch import Watch

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


def test_a_folder_is_its_files(tmp_path: Path) -> None:
    """A new file is a change; other kinds of files are not."""
    (tmp_path / "a.yaml").write_text("a")
    watch = Watch([tmp_path])
    (tmp_path / "notes.txt").write_text("x")
    before = looks(watch)
    (tmp_path / "b.yml").write_text("b")

    assert (before, looks(watch)) == ([False, False, False], [False, True, False])
