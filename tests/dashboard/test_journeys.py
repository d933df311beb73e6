"""The main use of each dashboard page, in a real browser, with real model servers."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.browser import PAGES
from tests.support.client import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visit, Visits
    from tests.support.client import Stream
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

LONG = 8000
"""Tokens: several seconds, even for a tiny model."""
FOCUSED = """({
  text: document.activeElement.textContent,
  outline: getComputedStyle(document.activeElement).outlineStyle,
})"""


def row(page: Page, model: str) -> Locator:
    return page.locator(f"[data-model='{model}']")


@pytest.fixture
def long_stream(hotseat: Hotseat) -> Iterator[Stream]:
    """Another client receives a long response from alpha."""
    stream = hotseat.stream("alpha", LONG).until_it_speaks()
    yield stream
    stream.leave()


def test_the_root_url_redirects_to_the_dashboard(visit: Visit, hotseat: Hotseat) -> None:
    """The page connects and shows the models."""
    visit.page.goto(hotseat.url)

    expect(visit.page).to_have_url(f"{hotseat.url}/hotseat/ui/")
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Models")
    expect(visit.page.get_by_role("status").first).to_have_text("live")


def test_a_model_is_loaded_and_stopped(visit: Visit, hotseat: Hotseat) -> None:
    """The Load and Stop buttons change the phase on the page and on the server."""
    page = visit.go("models")
    page.get_by_role("button", name="Load embed").click()
    expect(row(page, "embed")).to_have_attribute("data-phase", "ready")
    running = hotseat.running()
    page.get_by_role("button", name="Stop embed").click()
    expect(row(page, "embed")).to_have_attribute("data-phase", "cold")

    assert "embed" in running
    assert "embed" not in hotseat.running()


def test_a_swap_is_shown_without_a_reload(visit: Visit, hotseat: Hotseat) -> None:
    """The phases change as the swap happens, and the unloaded model shows the reason from the API."""
    hotseat.load("alpha")
    page = visit.go("models")
    expect(row(page, "alpha")).to_have_attribute("data-phase", "ready")
    hotseat.chat("beta")

    expect(row(page, "beta")).to_have_attribute("data-phase", "ready")
    expect(row(page, "alpha")).to_have_attribute("data-phase", "cold")
    expect(row(page, "alpha").locator(".why")).to_have_text("unloaded to free memory for beta")
    expect(page.locator(".dots li").first.get_by_role("img")).to_have_attribute("aria-label", "cold")


def test_a_failed_load_shows_the_cause_and_the_last_output(visit: Visit) -> None:
    """Both are on the Models page, the cause once; the Logs page is not needed."""
    page = visit.go("models")
    page.get_by_role("button", name="Load broken").click()

    expect(row(page, "broken").locator(".last-error")).to_contain_text("exited with code 1")
    expect(row(page, "broken").locator(".output")).to_contain_text("/dev/null")
    expect(row(page, "broken").locator(".why")).to_have_text("")
    expect(page.locator(".notice.trouble")).to_contain_text("broken is not ready")
    expect(page.locator(".notice.trouble code")).to_have_text(["hotseat logs broken"])
    expect(page.locator(".notice.trouble")).not_to_contain_text("`")
    # Chromium logs every response with status 400 or above.
    visit.problems[:] = [each for each in visit.problems if "status of 503" not in each]


def test_a_model_whose_last_start_failed_does_not_look_like_one_that_was_never_asked_for(visit: Visit) -> None:
    """The sidebar says so on every page, also after its backoff; a model that is loaded well has its phase."""
    page = visit.go("models")
    page.get_by_role("button", name="Load broken").click()
    page.get_by_role("button", name="Load alpha").click()
    page = visit.go("queue")
    models = page.get_by_role("region", name="Model phases").get_by_role("listitem")

    expect(models.filter(has_text="broken").get_by_role("img", name="failed")).to_be_visible()
    expect(models.filter(has_text="alpha").get_by_role("img", name="ready")).to_be_visible()
    visit.problems[:] = [each for each in visit.problems if "status of 503" not in each]


def test_a_model_of_the_side_bar_opens_its_details(visit: Visit) -> None:
    """From any page, with one click."""
    page = visit.go("queue")
    page.get_by_role("region", name="Model phases").get_by_role("link", name="beta").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Models")
    expect(row(page, "beta").get_by_role("button", name="beta", exact=True)).to_have_attribute("aria-expanded", "true")


def test_stopping_a_model_in_use_asks_for_confirmation(visit: Visit, hotseat: Hotseat, long_stream: Stream) -> None:
    """The dialog shows the number of requests; Escape changes nothing, and Abort and stop aborts the requests."""
    page = visit.go("models")
    expect(row(page, "alpha").locator("dd").first).to_have_text("1")
    page.get_by_role("button", name="Stop alpha").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 request is in flight")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    still_running = hotseat.running()
    page.get_by_role("button", name="Stop alpha").click()
    page.get_by_role("button", name="Abort and stop").click()
    expect(row(page, "alpha")).to_have_attribute("data-phase", "cold")
    long_stream.read()

    assert "alpha" in still_running
    assert not long_stream.done


def test_the_timeline_shows_a_swap_with_its_cause(visit: Visit, hotseat: Hotseat) -> None:
    """The chart has a lane per model and a band per phase, and a table shows the same data."""
    hotseat.load("alpha")
    hotseat.load("beta")
    page = visit.go("timeline")

    expect(page.locator(".band.ready").first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="unloaded to free memory for beta").first).to_contain_text(
        "eviction"
    )
    expect(page.locator(".swaps path").first).to_be_attached()
    expect(page.get_by_role("list", name="Legend").get_by_text("backing off")).to_be_visible()
    expect(page.locator(".lane-names li")).to_have_text(["alpha", "beta", "embed", "broken"])


def test_the_timeline_supports_the_keyboard(visit: Visit, hotseat: Hotseat) -> None:
    """Arrow keys pan away from the present, End follows it again."""
    hotseat.load("alpha")
    page = visit.go("timeline")
    page.locator(".lane-frame").focus()
    page.keyboard.press("+")
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    left = page.get_by_text(re.compile(r"^\d\d:\d\d:\d\d to \d\d:\d\d:\d\d$"))
    expect(left).to_be_visible()
    page.keyboard.press("End")

    expect(left).to_have_count(0)
    expect(page.get_by_text("following live")).to_be_visible()


def test_the_timeline_is_exported_as_a_trace(visit: Visit, hotseat: Hotseat) -> None:
    """The file contains named threads, phases with reasons, and requests."""
    hotseat.chat("alpha")
    page = visit.go("timeline")
    expect(page.locator(".requests rect").first).to_be_attached()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Export trace").click()
    events = json.loads(Path(saving.value.path()).read_text())["traceEvents"]

    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} >= {"alpha"}
    assert any(event["name"] == "loading" and event["args"]["reason"] for event in events)
    assert any(event["name"] == "POST /v1/chat/completions" for event in events)


def test_memory_is_shown_against_the_budget(visit: Visit, hotseat: Hotseat) -> None:
    """The bar has an accessible name with the resident models and the free memory."""
    hotseat.load("alpha")
    hotseat.call("DELETE", "/upstream/embed")
    page = visit.go("memory")

    expect(page.get_by_role("img", name="gpu0: alpha 6 GiB, free 4 GiB")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="beta")).to_contain_text("6 GiB")


def test_memory_shows_the_effective_size_of_each_model_and_its_source(visit: Visit) -> None:
    """The estimate from the model files is shown beside the configured size."""
    page = visit.go("memory")
    expect(page.get_by_role("row").filter(has_text="alpha")).to_be_visible()
    configured, estimated, _, effective, source = (
        page.get_by_role("row").filter(has_text="alpha").get_by_role("cell").all()[2:]
    )

    expect(configured).to_have_text("6 GiB")
    expect(estimated).to_have_text(re.compile(r"^\d+(\.\d)?\sMiB$"))
    expect(effective).to_have_text("6 GiB")
    expect(source).to_have_text("declared")


def test_memory_shows_a_yield_and_its_reason(visit: Visit, hotseat: Hotseat) -> None:
    """The message disappears when the yield ends."""
    page = visit.go("memory")
    hotseat.call("POST", "/hotseat/yield?device=gpu0")
    reason = hotseat.call("GET", "/hotseat/models").json()["yielding"]
    message = page.get_by_text(f"Yielding memory: {reason}.")
    try:
        assert "gpu0" in reason
        expect(message).to_be_visible()
    finally:
        hotseat.call("DELETE", "/hotseat/yield")

    expect(message).not_to_be_visible()


def test_a_waiting_request_is_listed_and_can_be_cancelled(visit: Visit, hotseat: Hotseat, long_stream: Stream) -> None:
    """The queue shows the model and the reason; after Cancel, the client receives an error."""
    page = visit.go("queue")
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(hotseat.chat, "beta")
        waiting = page.get_by_role("row").filter(has_text="beta")
        expect(waiting).to_contain_text("alpha")
        waiting.get_by_role("button", name="Cancel").click()
        answer = asking.result(timeout=PATIENCE_S)

    assert answer.status == 503
    assert "an operator cancelled this request" in answer.json()["error"]
    expect(page.get_by_text("No waiting requests.")).to_be_visible()


def test_requests_are_listed_in_progress_and_finished(visit: Visit, hotseat: Hotseat, long_stream: Stream) -> None:
    """The request in progress can be cancelled."""
    hotseat.chat("alpha")
    page = visit.go("activity")
    recent = page.get_by_role("region", name="Recent requests").get_by_role("row")
    expect(recent.nth(1)).to_contain_text("POST /v1/chat/completions")
    in_progress = page.get_by_role("region", name="Requests in progress").get_by_role("row")
    expect(in_progress.nth(1)).to_contain_text("answering")
    in_progress.nth(1).get_by_role("button", name="Cancel").click()
    long_stream.read()

    assert not long_stream.done
    expect(page.get_by_text("No requests in progress.")).to_be_visible()
    expect(page.locator(".plot canvas")).to_have_count(2)


def test_a_table_sorts_by_its_columns(visit: Visit, hotseat: Hotseat) -> None:
    """Enter on a heading sorts in ascending order, then in descending order."""
    page = visit.go("memory")
    first = page.get_by_role("region", name="Memory by model").locator("tbody td").first
    page.get_by_role("button", name="Model").press("Enter")
    expect(first).to_have_text("alpha")
    page.get_by_role("button", name="Model").press("Enter")

    expect(first).to_have_text("embed")
    expect(page.get_by_role("columnheader", name="Model")).to_have_attribute("aria-sort", "descending")


def test_the_playground_streams_a_response(visits: Visits) -> None:
    """The page shows the response and its speed, and the copied curl command works."""
    visit = visits(permissions=["clipboard-read", "clipboard-write"])
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.get_by_label("Max tokens").fill("24")
    page.get_by_label("Your message").fill("hello")
    page.get_by_label("Your message").press("Enter")
    expect(page.locator(".speed")).to_contain_text("tokens/s")
    expect(page.locator(".said.assistant")).to_contain_text("alpha")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.locator(".notice")).to_contain_text("Copied")
    command: str = page.evaluate("navigator.clipboard.readText()")
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S)

    expect(page.locator(".said.assistant p")).to_have_text(re.compile(r"\S"))
    assert '"content"' in said.stdout
    assert said.stdout.strip().endswith("data: [DONE]")


def test_the_playground_shows_why_a_request_failed(visit: Visit) -> None:
    """The error stays where the response would be, and the next message can be sent."""
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("broken")
    page.get_by_label("Your message").fill("hello")
    page.get_by_label("Your message").press("Enter")

    expect(page.locator(".said.assistant .trouble")).to_contain_text("broken is not ready: it exited with code 1")
    expect(page.locator(".said.assistant .trouble")).to_contain_text("See hotseat logs broken")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    visit.problems[:] = [each for each in visit.problems if "status of 503" not in each]


def test_a_rejected_configuration_is_shown_on_every_page(visit: Visit, hotseat: Hotseat) -> None:
    """A banner leads to the errors, and disappears when a reload succeeds."""
    good = hotseat.config.read_text()
    hotseat.config.write_text(good + "\nlisen: 8080\n")
    assert hotseat.cli("reload").returncode == 3
    for name in ("models", "queue", "playground"):
        expect(visit.go(name).get_by_role("alert")).to_contain_text("The last reload of the configuration had errors")
    page = visit.page
    page.get_by_role("link", name="View errors").click()
    expect(page.locator(".sentences.trouble")).to_contain_text("lisen: unknown key")
    hotseat.config.write_text(good)
    assert hotseat.cli("reload").returncode == 0

    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_failed_reload_keeps_the_configuration_and_shows_the_error(visit: Visit, hotseat: Hotseat) -> None:
    """The page shows the error and its position, until a reload succeeds."""
    page = visit.go("config")
    expect(page.get_by_text("All models run together as long as they fit into gpu0")).to_be_visible()
    expect(page.locator("dt", has_text="budgets.gpu0").locator("+ dd")).to_have_text("10 GiB")
    good = hotseat.config.read_text()
    hotseat.config.write_text(good + "\nlisen: 8080\n")
    page.get_by_role("button", name="Reload config").click()
    expect(page.locator(".sentences.trouble")).to_contain_text('lisen: unknown key. Did you mean "listen"?')
    hotseat.config.write_text(good)
    page.get_by_role("button", name="Reload config").click()

    expect(page.locator(".sentences.trouble")).to_have_count(0)
    visit.problems[:] = [each for each in visit.problems if "status of 422" not in each]


def test_the_dashboard_reconnects(visit: Visit, hotseat: Hotseat) -> None:
    """The status shows the lost connection, and the page recovers without a reload."""
    page = visit.go("models")
    connection = page.get_by_role("status").first
    expect(connection).to_have_text("live")
    page.context.set_offline(True)
    expect(connection).to_have_text("disconnected")
    page.context.set_offline(False)
    expect(connection).to_have_text("live")
    hotseat.load("beta")

    expect(row(page, "beta")).to_have_attribute("data-phase", "ready")
    visit.problems[:] = [each for each in visit.problems if "ERR_INTERNET_DISCONNECTED" not in each]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(visits: Visits, hotseat: Hotseat, scheme: str) -> None:
    """axe-core finds no serious problem in either theme."""
    hotseat.chat("alpha")
    visit = visits(color_scheme=scheme, reduced_motion="reduce")
    findings = {}
    for page in PAGES:
        visit.go(page)
        findings[page] = visit.findings()

    assert findings == {page: [] for page in PAGES}


def test_every_page_fits_a_phone(visits: Visits) -> None:
    """At a width of 400 pixels no page scrolls horizontally, and the menu reaches every page."""
    visit = visits(viewport={"width": 400, "height": 800})
    widths = {}
    for name in PAGES:
        page = visit.go("models")
        page.get_by_role("button", name="Menu").click()
        page.locator(f"nav a[href='#/{name}']").click()
        page.get_by_role("heading", level=1, name=name.capitalize()).wait_for()
        widths[name] = page.evaluate("document.documentElement.scrollWidth")

    assert widths == dict.fromkeys(PAGES, 400)


def test_the_focus_is_always_visible(visit: Visit) -> None:
    """Every focused element has an outline, and the first one skips the navigation."""
    page = visit.go("models")
    walked = []
    for _ in range(20):
        page.keyboard.press("Tab")
        walked.append(page.evaluate(FOCUSED))

    assert walked[0] == {"text": "Skip to content", "outline": "solid"}
    assert {step["outline"] for step in walked} == {"solid"}


def test_the_selected_theme_is_kept(visit: Visit) -> None:
    """The dark theme stays after a reload, although the system theme is light."""
    page = visit.go("models")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    page.reload()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    assert (light, dark) == ("rgb(250, 250, 248)", "rgb(21, 21, 19)")
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
