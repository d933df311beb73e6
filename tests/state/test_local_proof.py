"""How a command shows that it runs as the same user: by a file that only this user can write and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.state.local_proof import LENGTH, PROOF, is_proven, written_proof

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_in_the_file_proves_it(tmp_path: Path) -> None:
    """As long as the command runs, and in its own state directory only."""
    (tmp_path / "other").mkdir()
    with written_proof(tmp_path / "state") as proof:
        proven = is_proven(tmp_path / "state", proof)
        elsewhere = is_proven(tmp_path / "other", proof)

    assert (proven, elsewhere) == (True, False)
    assert not is_proven(tmp_path / "state", proof)
    assert list((tmp_path / "state").iterdir()) == []


def test_nothing_else_proves_it(tmp_path: Path) -> None:
    """Neither an empty proof nor a guessed one does, and an empty file authenticates nobody."""
    with written_proof(tmp_path) as proof:
        for sent in ("", proof[:-1], proof + "0", "0" * LENGTH, "\udcff" * LENGTH):
            assert not is_proven(tmp_path, sent)
    (tmp_path / PROOF).touch(mode=0o600)

    assert not is_proven(tmp_path, "")


def test_a_file_that_others_may_read(tmp_path: Path) -> None:
    """It proves nothing, since anybody may have sent what is in it; nor does a link or a folder."""
    with written_proof(tmp_path) as proof:
        (tmp_path / PROOF).chmod(0o644)
        readable = is_proven(tmp_path, proof)
        (tmp_path / PROOF).chmod(0o600)
        (tmp_path / PROOF).rename(tmp_path / "elsewhere")
        (tmp_path / PROOF).symlink_to(tmp_path / "elsewhere")
        linked = is_proven(tmp_path, proof)
    (tmp_path / PROOF).mkdir()

    assert (readable, linked, is_proven(tmp_path, proof)) == (False, False, False)


def test_a_proof_that_a_killed_command_left(tmp_path: Path) -> None:
    """The next command replaces it."""
    (tmp_path / PROOF).write_text("old")
    with written_proof(tmp_path) as proof:
        assert is_proven(tmp_path, proof)
