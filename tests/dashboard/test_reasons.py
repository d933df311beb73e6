"""From "why is this slow?" to the answer in two clicks."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.client import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visit, Visits
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

LONG = 8000
"""Tokens: several seconds, even for a tiny model."""


def first(page: Page, table: str) -> Locator:
    return page.get_by_role("region", name=table).locator("tbody tr").first


def test_a_slow_request_is_explained(visit: Visit, hotseat: Hotseat) -> None:
    """The first click opens Activity, the second, anywhere in the row, where the time went, the reason and the swap."""
    hotseat.load("alpha")
    hotseat.chat("beta")
    page = visit.go("models")
    page.get_by_role("navigation").get_by_role("link", name="Activity").click()
    expect(first(page, "Recent requests")).to_contain_text("beta")
    first(page, "Recent requests").get_by_text("/v1/chat/completions").click()
    reasons = page.locator(".reasons")

    expect(reasons).to_contain_text("waited for beta to load after evicting alpha")
    expect(reasons).to_contain_text(re.compile(r"The swap to beta took \d.*; evicted: alpha"))
    expect(reasons.get_by_role("listitem").first).to_have_text(re.compile(r"waited \d"))
    assert visit.findings() == []


def test_a_waiting_request_is_explained(visit: Visit, hotseat: Hotseat) -> None:
    """While another client uses alpha, a request for beta says so."""
    stream = hotseat.stream("alpha", LONG).until_it_speaks()
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(hotseat.chat, "beta")
        page = visit.go("activity")
        waiting = page.get_by_role("region", name="Requests in progress").get_by_role("row").filter(has_text="beta")
        waiting.get_by_role("button").first.press("Enter")
        expect(page.locator(".reasons")).to_contain_text(re.compile(r"It waits: .*alpha"))
        stream.leave()
        assert asking.result(timeout=PATIENCE_S).status == 200


def test_an_answer_in_progress_says_what_it_has_waited_for(visit: Visit, hotseat: Hotseat) -> None:
    """Also while it is answered, not only when it is over."""
    hotseat.load("alpha")
    stream = hotseat.stream("beta", LONG).until_it_speaks()
    page = visit.go("activity")
    first(page, "Requests in progress").get_by_role("button").first.press("Enter")

    expect(page.locator(".reasons")).to_contain_text(re.compile(r"The swap to beta took \d.*; evicted: alpha"))
    stream.leave()


def test_an_explanation_fits_a_phone(visits: Visits, hotseat: Hotseat) -> None:
    """At a width of 400 pixels it can be read without scrolling horizontally, and so can the time that it waited."""
    hotseat.chat("alpha")
    page = visits(viewport={"width": 400, "height": 800}).go("activity")
    recent = page.get_by_role("region", name="Recent requests")
    waited = recent.get_by_role("columnheader", name="Waited").bounding_box()
    first(page, "Recent requests").get_by_role("button").click()
    box = page.locator(".reasons").bounding_box()

    assert box is not None
    assert waited is not None
    assert max(each["x"] + each["width"] for each in (box, waited)) <= 400
    assert page.evaluate("document.documentElement.scrollWidth") == 400
