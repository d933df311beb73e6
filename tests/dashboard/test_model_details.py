"""The details of a model on the Models page, in a real browser with real model servers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visit, Visits
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def row(page: Page, model: str) -> Locator:
    return page.locator(f"[data-model='{model}']")


def part(page: Page, model: str, title: str) -> Locator:
    return row(page, model).get_by_role("region", name=title, exact=True)


def test_the_figures_of_a_model_are_visible_at_a_glance(visit: Visit, hotseat: Hotseat) -> None:
    """Context and tokens per second are those of its server."""
    hotseat.chat("alpha", 24)
    page = visit.go("models")

    figures = row(page, "alpha").locator(".inline > div")
    expect(figures.filter(has_text="Context")).to_contain_text("8,192")
    expect(figures.filter(has_text="Tokens/s")).to_have_text(re.compile(r"Tokens/s\d"))
    expect(figures.filter(has_text="Memory")).to_contain_text("GiB")


def test_the_history_of_a_model_has_loads_evictions_and_failures(visit: Visit, hotseat: Hotseat) -> None:
    """Each with its reason, and loads with their duration."""
    hotseat.load("alpha")
    hotseat.load("beta")
    hotseat.call("GET", "/upstream/broken/load")
    page = visit.go("models", "?model=alpha")
    history = part(page, "alpha", "History").get_by_role("row")
    expect(history.filter(has_text="evicted").first).to_contain_text("unloaded to free memory for beta")
    expect(history.filter(has_text="loaded").last).to_contain_text(re.compile(r"\d\s(ms|s)$"))
    row(page, "broken").get_by_role("button", name="broken", exact=True).click()
    failure = part(page, "broken", "History").get_by_role("row").filter(has_text="load failed").first

    expect(failure).to_contain_text("exited with code 1")
    visit.problems[:] = [each for each in visit.problems if "status of 422" not in each]


def test_the_details_have_settings_estimate_and_output(visit: Visit, hotseat: Hotseat) -> None:
    """Nothing else has to be opened to see what a model is configured to do and what it takes."""
    hotseat.load("alpha")
    page = visit.go("models", "?model=alpha")

    expect(part(page, "alpha", "Settings").locator("dt", has_text="Unload when idle").locator("+ dd")).to_have_text(
        re.compile(r"after 10\smin")
    )
    estimate = part(page, "alpha", "Estimated memory")
    expect(estimate.get_by_role("row").filter(has_text="weights of alpha.gguf").first).to_contain_text("MiB")
    expect(part(page, "alpha", "Last output")).to_contain_text("listening on")
    assert visit.findings() == []


def test_the_details_fit_a_phone(visits: Visits) -> None:
    """At a width of 400 pixels the page does not scroll horizontally."""
    page = visits(viewport={"width": 400, "height": 800}).go("models", "?model=alpha")
    part(page, "alpha", "Estimated memory").get_by_role("row").first.wait_for()

    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_an_estimate_that_is_not_possible_says_why(visit: Visit) -> None:
    """The file is not a model."""
    page = visit.go("models", "?model=broken")

    expect(part(page, "broken", "Estimated memory")).to_contain_text("/dev/null")
    visit.problems[:] = [each for each in visit.problems if "status of 422" not in each]


@pytest.mark.parametrize("width", [1280, 1080, 800])
def test_a_row_stays_inside_its_card(visits: Visits, width: int) -> None:
    """Whatever the width of the window, the buttons do not leave the list."""
    page = visits(viewport={"width": width, "height": 800}).go("models")
    card = page.locator(".rows").bounding_box()
    button = row(page, "alpha").locator(".model-head > button").last.bounding_box()

    assert card is not None
    assert button is not None
    assert button["x"] + button["width"] < card["x"] + card["width"]
