"""How the dashboard's files are served: to be kept for ever, with a policy that lets nothing else in."""

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
async def house(tmp_path: Path) -> AsyncIterator[Management]:
    async with management(tmp_path / "socket", catalog(spec("alpha"))) as house:
        yield house


async def test_the_page_and_its_files_are_served(house: Management) -> None:
    """Everything that the page names is there, and nothing is inline."""
    page = await house.get("/hotseat/ui/")
    named = re.findall(r'(?:src|href)="(files/[^"]+)"', page.text)
    answers = [await house.get(f"/hotseat/ui/{file}") for file in named]

    assert page.headers["content-type"].startswith("text/html")
    assert len(named) == 4
    assert [answer.status_code for answer in answers] == [200] * 4
    assert "<script>" not in page.text
    assert "<style" not in page.text
    assert "style=" not in page.text


async def test_the_policy_allows_our_own_files_only(house: Management) -> None:
    """Text of models and logs can never become code."""
    page = await house.get("/hotseat/ui/")
    policy = page.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"


async def test_files_are_kept_and_the_page_is_asked_for_again(house: Management) -> None:
    """A file's name holds its checksum; the page names the files of today."""
    page = await house.get("/hotseat/ui/")
    again = await house.get("/hotseat/ui/", headers={"If-None-Match": page.headers["etag"]})
    [script] = re.findall(r'src="(files/app-[^"]+)"', page.text)
    file = await house.get(f"/hotseat/ui/{script}")

    assert page.headers["cache-control"] == "no-cache"
    assert again.status_code == 304
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_nothing_outside_its_folder_is_served(house: Management) -> None:
    """The dashboard's folder is all there is."""
    assert (await house.get("/hotseat/ui/%2e%2e/__init__.py")).status_code == 404
    assert (await house.get("/hotseat/ui/files/nothing.js")).status_code == 404


@pytest.mark.parametrize("path", ["/", "/ui", "/hotseat/ui"])
async def test_front_doors_lead_to_the_dashboard(house: Management, path: str) -> None:
    """Wherever a reverse proxy has put us, the way leads on from there."""
    answer = await house.get(path, follow_redirects=True)

    assert answer.url.path == "/hotseat/ui/"
    assert answer.status_code == 200
