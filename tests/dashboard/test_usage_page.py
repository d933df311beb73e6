"""The usage page, in a real browser: what was used on each day, by model and by key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.stubs import stub

from hotseat.activity.usage_store import DAY_S, Place, UsageStore, Used
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visits
    from tests.support.hotseat import Hotseat

MODELS = [f"model-{n}" for n in range(9)]


@pytest.fixture(scope="module")
def hotseat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    folder = tmp_path_factory.mktemp("hotseat")
    fill(folder / "state/hotseat/usage.sqlite3")
    with ForkedHotseat({"models": {"alpha": stub("alpha")}}, folder) as hotseat:
        yield hotseat


def fill(file: Path) -> None:
    """Of 40 days, the last one included; the first model is used most."""
    today = int(time.time()) // DAY_S
    UsageStore(file).add(
        {
            Place(today - day, ModelName(model), ("ann", "ci", "")[n % 3]): Used(
                10, n % 2, 1000 * (9 - n), 400, 100, n % 2 * 25
            )
            for day in range(40)
            for n, model in enumerate(MODELS)
        }
    )


def bars(page: Page) -> Locator:
    return page.get_by_role("img", name="Chart of the tokens")


def press(page: Page, button: str) -> None:
    """With the keyboard."""
    page.get_by_role("button", name=button, exact=True).focus()
    page.keyboard.press("Enter")


def test_each_day_is_a_bar_of_models(visits: Visits) -> None:
    """Six models have a colour, the others share one; the table has them all, the most used one first."""
    page = visits().go("usage")

    expect(bars(page).locator("> div")).to_have_count(30)
    expect(bars(page).locator("> div").first.locator("i")).to_have_count(7)
    expect(page.locator(".legend")).to_contain_text("others")
    rows = page.get_by_role("region", name="Usage by model").locator("tbody tr")
    expect(rows).to_have_count(9)
    expect(rows.first.locator("td")).to_have_text(["model-0", "300", "0", "270,000", "12,000", "3,000", "273,000"])


def test_tokens_that_no_server_has_reported_are_named_apart(visits: Visits) -> None:
    """They are estimates, and no part of the other figures."""
    page = visits().go("usage")

    expect(page.locator(".figures")).to_contain_text("120 without token counts: about 3,000 tokens more")


def test_usage_by_key_is_chosen_with_the_keyboard(visits: Visits) -> None:
    """Requests without a key have a row of their own; another time has other sums."""
    page = visits().go("usage")
    press(page, "By key")
    press(page, "7 days")

    rows = page.get_by_role("region", name="Usage by key").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first.locator("td").first).to_have_text("ann")
    expect(rows.last.locator("td").first).to_have_text("no key")
    expect(bars(page).locator("> div")).to_have_count(7)
    expect(page.locator(".figure", has_text="Requests").first).to_contain_text("630")


def test_the_chart_is_there_as_a_table(visits: Visits) -> None:
    """The newest day is the first row."""
    page = visits().go("usage")
    page.get_by_text("Show as table").click()

    rows = page.get_by_role("region", name="Tokens per day", exact=True).locator("tbody tr")
    expect(rows).to_have_count(30)
    expect(rows.first.locator("td").nth(1)).to_have_text("45,900")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_usage_is_accessible_on_a_phone(visits: Visits, scheme: str) -> None:
    """axe-core finds no serious problem, and nothing scrolls horizontally."""
    visit = visits(color_scheme=scheme, viewport={"width": 400, "height": 800})
    page = visit.go("usage")
    expect(bars(page).locator("> div")).to_have_count(30)

    assert visit.findings() == []
    assert page.evaluate("document.documentElement.scrollWidth") == 400
