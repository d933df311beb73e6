#!/usr/bin/env python3
"""Prints what the changelog says about a release: `just release-notes v1.2.3`.

Fails if the tag is not the version of the package, so that no release has another name than what it contains.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hotseat import __version__

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


def main(tag: str, base: str = "") -> None:
    if tag != f"v{__version__}":
        raise SystemExit(
            f"The tag is {tag}, but the version in src/hotseat/__init__.py is {__version__}. Change one of them."
        )
    print(notes(CHANGELOG.read_text(), __version__, base))


def notes(changelog: str, version: str, base: str) -> str:
    """The section of a version. Its relative links begin with `base`, since it is read elsewhere."""
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if not section:
        raise SystemExit(f"CHANGELOG.md has no section {version} with a date. Write it: ## [{version}] - YYYY-MM-DD")
    return LINK.sub(rf"]({base}\1)", section[1].strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
