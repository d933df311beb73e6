"""The Logs page in a real browser: lines of real model servers and hotseat's own, in the order of time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visit, Visits
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

IS_AT_END = "view => view.scrollHeight - view.scrollTop - view.clientHeight < 40"


def lines(page: Page, text: str = "") -> Locator:
    return page.locator(".line").filter(has_text=text)


def view(page: Page) -> Locator:
    return page.get_by_role("region", name="Log lines")


@pytest.fixture(autouse=True)
def _alpha_runs(hotseat: Hotseat) -> None:
    hotseat.load("alpha")


def test_lines_of_all_sources_are_in_the_order_of_time(visit: Visit, hotseat: Hotseat) -> None:
    """hotseat's own lines are among those of the model servers, with time, source and level."""
    page = visit.go("logs")
    expect(lines(page, "model server ready model=alpha").last).to_be_visible()
    ready = lines(page, "model server ready model=alpha").last
    texts = page.locator(".line .text").all_text_contents()

    expect(ready.locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(ready.locator(".source")).to_have_text("hotseat")
    expect(ready.locator(".level")).to_have_text("info")
    expect(lines(page, "model loaded").first.locator(".source")).to_have_text("alpha")
    starting, loading = (
        next(n for n, text in enumerate(texts) if part in text) for part in ("starting model server", "loading model")
    )
    assert starting < loading
    clocks = page.locator(".line time").all_text_contents()
    assert clocks == sorted(clocks)


def test_a_source_is_selected(visit: Visit) -> None:
    """One model's output, or hotseat's own log; the address of the page says which, and a pause ends."""
    page = visit.go("logs")
    page.get_by_label("Source").select_option("hotseat itself")
    expect(page).to_have_url(re.compile(r"#/logs\?own=true$"))
    expect(lines(page, "listening on").first).to_be_visible()
    own = set(page.locator(".line .source").all_text_contents())
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Source").select_option("alpha")
    expect(page).to_have_url(re.compile(r"#/logs\?model=alpha$"))
    expect(lines(page, "model loaded").first).to_be_visible()

    assert own == {"hotseat"}
    assert set(page.locator(".line .source").all_text_contents()) == {"alpha"}


def test_lines_are_filtered_by_level_and_text(visit: Visit, hotseat: Hotseat) -> None:
    """A level is a word beside its colour."""
    assert hotseat.call("GET", "/upstream/broken/load").status == 503
    page = visit.go("logs")
    expect(lines(page, "failed to start").first).to_be_visible()
    page.get_by_label("Level").select_option("Warnings and errors")
    expect(lines(page, "model server ready")).to_have_count(0)
    shown = set(page.locator(".line .level").all_text_contents())
    page.get_by_label("Filter lines").fill("MODEL SERVER FAILED TO START")

    expect(lines(page).first.locator(".text")).to_contain_text("model server failed to start")
    expect(lines(page).first.locator(".source")).to_have_text("hotseat")
    assert shown <= {"warning", "error", "critical"}
    assert {"warning", "error"} & shown
    expect(page.get_by_text(re.compile(r"^\d+ of \d+ lines$"))).to_be_visible()


def test_new_lines_are_counted_during_a_pause(visit: Visit, hotseat: Hotseat) -> None:
    """The list stands still, and the button with the count shows the new lines."""
    page = visit.go("logs", "?model=alpha")
    expect(lines(page, "model loaded").first).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    seen = lines(page).count()
    hotseat.chat("alpha")
    news = page.get_by_role("button", name=re.compile(r"^\d+ new lines?"))
    expect(news).to_be_visible()
    assert lines(page).count() == seen
    news.click()

    expect(news).to_have_count(0)
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    eventually(lambda: lines(page).count() > seen)
    eventually(lambda: view(page).evaluate(IS_AT_END))


def test_scrolling_up_pauses_and_returning_to_the_end_goes_on(visits: Visits, hotseat: Hotseat) -> None:
    """With the keyboard alone; nothing moves while somebody reads."""
    for _ in range(5):
        hotseat.chat("alpha")
    page = visits(viewport={"width": 1280, "height": 420}).go("logs", "?model=alpha")
    expect(lines(page, "model loaded").first).to_be_attached()
    eventually(lambda: view(page).evaluate(IS_AT_END))
    view(page).focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("button", name="Follow")).to_be_visible()
    hotseat.chat("alpha")
    expect(page.get_by_role("button", name=re.compile(r"new line"))).to_be_visible()
    top = view(page).evaluate("view => view.scrollTop")
    page.keyboard.press("End")

    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile(r"new line"))).to_have_count(0)
    assert top == 0
    eventually(lambda: view(page).evaluate(IS_AT_END))


def test_the_shown_lines_are_downloaded(visit: Visit, hotseat: Hotseat) -> None:
    """In the form of `hotseat logs`."""
    hotseat.chat("alpha")
    page = visit.go("logs")
    page.get_by_label("Filter lines").fill("PRINT_TIMING")
    expect(lines(page).first).to_contain_text("print_timing")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download").click()
    saved = Path(saving.value.path()).read_text().splitlines()

    assert saving.value.suggested_filename == "all.log"
    assert len(saved) == lines(page).count()
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z alpha \| .*print_timing", line) for line in saved)


def test_lines_stay_when_the_connection_is_lost(visit: Visit, hotseat: Hotseat) -> None:
    """They are replaced when the new connection sends them again, without duplicates."""
    page = visit.go("logs", "?own=true")
    expect(lines(page, "listening on")).to_have_count(1)
    page.context.set_offline(True)
    expect(page.get_by_role("status").first).to_have_text("disconnected")
    expect(lines(page, "listening on")).to_have_count(1)
    hotseat.call("DELETE", "/upstream/alpha")
    page.context.set_offline(False)

    expect(lines(page, "stopping model server model=alpha").last).to_be_visible()
    expect(lines(page, "listening on")).to_have_count(1)
    visit.problems[:] = [each for each in visit.problems if "ERR_INTERNET_DISCONNECTED" not in each]
