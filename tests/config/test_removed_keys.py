"""Keys of earlier versions."""

from __future__ import annotations

from tests.support.llama import REPOSITORY

from hotseat.config.problems import dotted
from hotseat.config.removed_keys import REMOVED
from hotseat.config.schema import Config, LimitsForm
from hotseat.config.validate import form_at
from hotseat.settings import Limits


def test_a_removed_key_is_not_known_and_its_section_still_is() -> None:
    """Otherwise nobody would see its sentence."""
    for path in REMOVED:
        form = form_at(Config, path[:-1])
        assert form is not None
        assert path[-1] not in form.known_keys()


def test_the_changelog_tells_those_who_upgrade() -> None:
    """Each removed key is in its table of what is removed and renamed."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    rows = "".join(line for line in changelog.splitlines() if line.startswith("| "))

    assert [path for path in REMOVED if f"`{dotted(path)}`" not in rows] == []


def test_the_sentences_have_the_limits_that_hold() -> None:
    """They are constants that nobody can configure."""
    said, limits = " ".join(REMOVED.values()), Limits()

    assert f"{limits.header >> 10} KiB" in said
    assert f"{limits.connections:,} connections, {limits.per_address:,} of them" in said
    assert limits.header_timeout_s == 10.0
    assert "idleTimeout" in LimitsForm.known_keys()
