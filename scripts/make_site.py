#!/usr/bin/env python3
"""Builds the documentation site: `just site`.

Pages are copied unchanged, except for links that leave docs/, since a site has no tests or scripts, and for an escape
that code hosts need and the site's Markdown does not.
Fails on broken links, and on anything that a page would fetch from other hosts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
STAGE = REPOSITORY / "build/site"
PROJECT = {f"{name}.md": f"project/{name.lower()}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}
"""Pages outside docs/ that become pages of the site."""

FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s:]+)\)")
TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc="?(https?://[^"\s>]+)|<link[^>]*\shref="?(https?://[^"\s>]+)"""
)


def main(zensical: str) -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    stage(STAGE / "docs")
    shutil.copy(REPOSITORY / "zensical.toml", STAGE)
    # Not in the repository itself: zensical keeps and cleans a folder `.cache` beside its configuration, as we do.
    subprocess.run([zensical, "build", "--strict", "--config-file", str(STAGE / "zensical.toml")], check=True)
    if fetched := foreign(STAGE / "html"):
        raise SystemExit("pages would fetch from elsewhere:\n" + "\n".join(fetched))
    print(f"{len(list((STAGE / 'html').rglob('*.html')))} pages: {STAGE / 'html/index.html'}")


def stage(folder: Path) -> None:
    """A copy of docs/ with the project's own pages, in which links without a page are removed."""
    shutil.copytree(DOCS, folder)
    pages = {DOCS / path.relative_to(folder): path for path in folder.rglob("*.md")}
    pages |= {REPOSITORY / name: folder / target for name, target in PROJECT.items()}
    for source, target in pages.items():
        target.parent.mkdir(exist_ok=True)
        target.write_text(with_fitting_links(source, target, pages))


def with_fitting_links(source: Path, target: Path, pages: dict[Path, Path]) -> str:
    def fitting(link: re.Match[str]) -> str:
        text, (path, mark, place) = link[1], link[2].partition("#")
        aim = Path(os.path.normpath(source.parent / path))
        if not path or (aim.is_relative_to(DOCS) and source.is_relative_to(DOCS)):
            return link[0]
        if staged := pages.get(aim):
            return f"[{text}]({os.path.relpath(staged, target.parent)}{mark}{place})"
        return f"{text} (`{aim.relative_to(REPOSITORY)}`)"

    parts = FENCE.split(source.read_text())
    return "".join(part if part.startswith("```") else LINK.sub(fitting, with_bare_pipes(part)) for part in parts)


def with_bare_pipes(text: str) -> str:
    """Code in tables for the site's Markdown, which would show the backslash before a pipe in code."""
    return TABLE_ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def foreign(site: Path) -> list[str]:
    """What pages would fetch from other hosts, each with its page."""
    return [
        f"{page.relative_to(site)}: {''.join(found)}"
        for page in sorted(site.rglob("*.html"))
        for found in FETCHED.findall(page.read_text())
    ]


if __name__ == "__main__":
    main(sys.argv[1])
