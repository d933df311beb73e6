"""How the dashboard's files are served: cacheable forever, with a strict content security policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.management import management

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.management import Management


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Management]:
    async with management(tmp_path / "socket", catalog(spec("alpha"))) as rig:
        yield rig


async def test_the_page_and_its_files_are_served(rig: Management) -> None:
    """Every file that the page refers to exists, and nothing is inline."""
    page = await rig.get("/hotseat/ui/")
    named = re.findall(r'(?:src|href)="(files/[^"]+)"', page.text)
    answers = [await rig.get(f"/hotseat/ui/{file}") for file in named]

    assert page.headers["content-type"].startswith("text/html")
    assert len(named) == 4
    assert [answer.status_code for answer in answers] == [200] * 4
    assert "<script>" not in page.text
    assert "<style" not in page.text
    assert "style=" not in page.text


async def test_the_policy_allows_only_files_from_hotseat(rig: Management) -> None:
    """Text from models and logs cannot run as code."""
    page = await rig.get("/hotseat/ui/")
    policy = page.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"


async def test_files_are_cached_and_the_page_is_revalidated(rig: Management) -> None:
    """A file's name contains its hash, and the page refers to the current files."""
    page = await rig.get("/hotseat/ui/")
    again = await rig.get("/hotseat/ui/", headers={"If-None-Match": page.headers["etag"]})
    [script] = re.findall(r'src="(files/app-[^"]+)"', page.text)
    file = await rig.get(f"/hotseat/ui/{script}")

    assert page.headers["cache-control"] == "no-cache"
    assert again.status_code == 304
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_nothing_outside_the_assets_is_served(rig: Management) -> None:
    """Other files of the package and missing files give 404."""
    assert (await rig.get("/hotseat/ui/%2e%2e/__init__.py")).status_code == 404
    assert (await rig.get("/hotseat/ui/files/nothing.js")).status_code == 404


@pytest.mark.parametrize("path", ["/", "/ui", "/hotseat/ui"])
async def test_entry_paths_redirect_to_the_dashboard(rig: Management, path: str) -> None:
    """The redirects are relative, so they also work under a path prefix of a reverse proxy."""
    answer = await rig.get(path, follow_redirects=True)

    assert answer.url.path == "/hotseat/ui/"
    assert answer.status_code == 200
