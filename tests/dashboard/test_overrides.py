"""Pin and ttl are buttons on the Models page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visit
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def setting(page: Page, name: str) -> Locator:
    return page.locator("[data-model='beta'] dt", has_text=name).locator("+ dd")


def overrides(hotseat: Hotseat) -> object:
    return hotseat.call("GET", "/hotseat/models/beta").json()["overrides"]


def test_a_model_is_pinned_and_unpinned(visit: Visit, hotseat: Hotseat) -> None:
    """The page shows what is set and what the configuration says; what equals the configuration is no override."""
    page = visit.go("models", "?model=beta")
    page.get_by_role("button", name="Pin beta", exact=True).click()
    expect(setting(page, "Pinned")).to_contain_text("yes, never evicted · set here, the configuration says no")
    expect(page.locator("[data-model='beta'] .tag")).to_have_text(["pinned", "override"])
    pinned = overrides(hotseat)
    page.get_by_role("button", name="Unpin beta").click()
    expect(setting(page, "Pinned").locator(".value")).to_have_text("no")

    assert pinned == {"pinned": True, "ttl": None}
    assert overrides(hotseat) is None


def test_a_model_gets_another_ttl(visit: Visit, hotseat: Hotseat) -> None:
    """With the keyboard alone."""
    page = visit.go("models", "?model=beta")
    choice = page.get_by_role("group", name="Unload beta when idle")
    expect(choice.get_by_role("button", name="Never")).to_have_attribute("aria-pressed", "true")
    choice.get_by_role("button", name=re.compile(r"^10\smin$")).press("Enter")
    expect(setting(page, "Unload when idle")).to_contain_text(
        re.compile(r"after 10\smin · set here, the configuration says never")
    )
    chosen = overrides(hotseat)
    assert visit.findings() == []
    choice.get_by_role("button", name="Never").press("Enter")
    expect(setting(page, "Unload when idle").locator(".value")).to_have_text("never")

    assert chosen == {"pinned": None, "ttl": 600.0}
    assert overrides(hotseat) is None
