"""Keys of earlier versions."""

from __future__ import annotations

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


def test_the_sentences_have_the_limits_that_hold() -> None:
    """They are constants that nobody can configure."""
    said, limits = " ".join(REMOVED.values()), Limits()

    assert f"{limits.header >> 10} KiB" in said
    assert f"{limits.connections:,} connections, {limits.per_address:,} of them" in said
    assert limits.header_timeout_s == 10.0
    assert "idleTimeout" in LimitsForm.known_keys()
