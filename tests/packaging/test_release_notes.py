"""The notes of a release are its section of the changelog."""

from __future__ import annotations

import pytest
from scripts.release_notes import main, notes

from hotseat import __version__

CHANGELOG = """# Changelog

## [Unreleased]

- Not yet.

## [1.2.0] - 2027-01-02

- Keys ([how](docs/howto/keys.md#audit), [spec](https://example.org)).

## [1.1.0] - 2027-01-01

- Older.
"""


def test_a_section_ends_before_the_next() -> None:
    """Its relative links lead to the files of the release, the others stay."""
    assert notes(CHANGELOG, "1.2.0", "https://forge.example/v1.2.0/") == (
        "- Keys ([how](https://forge.example/v1.2.0/docs/howto/keys.md#audit), [spec](https://example.org))."
    )


@pytest.mark.parametrize("version", ["1.3.0", "1.2", "Unreleased"])
def test_a_version_without_a_dated_section(version: str) -> None:
    """It is no release: the error says what to write."""
    with pytest.raises(SystemExit, match=rf"no section {version} with a date"):
        notes(CHANGELOG, version, "")


def test_the_present_version_has_notes(capsys: pytest.CaptureFixture[str]) -> None:
    """They can be printed from the changelog as it is."""
    main(f"v{__version__}")

    assert "### " in capsys.readouterr().out


def test_a_tag_of_another_version() -> None:
    """It stops the release, with both versions."""
    with pytest.raises(SystemExit, match=rf"The tag is v9\.9\.9, but the version .* is {__version__}"):
        main("v9.9.9")
