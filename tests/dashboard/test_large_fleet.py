"""The fleet page with 500 hosts that have ten models each, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect
from tests.support.fleet_of_records import among_records, host_record
from tests.support.stubs import stub

from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visits
    from tests.support.hotseat import Hotseat

    from hotseat.fleet.records import HostRecord

pytestmark = [pytest.mark.deep, pytest.mark.timeout(180)]

HOSTS = 500
MODELS = [f"model-{number:02}" for number in range(10)]
STATES = ["all 500", "500 ready", "0 cordoned", "0 drained", "1 file missing", "2 other configuration"]
RENDERED = 50
"""Rows of a table before it is scrolled."""


def records(digest: str) -> list[HostRecord]:
    """Two hosts have another configuration than the others, and one of them another model."""
    usual = [host_record(number, digest, MODELS) for number in range(1, HOSTS - 2)]
    usual[76] = replace(usual[76], missing_files={ModelName("zebra"): "/models/zebra.gguf"})
    return [*usual, host_record(498, "9f8e7d6c", MODELS), host_record(499, "9f8e7d6c", ["zebra"])]


@pytest.fixture(scope="module")
def hotseat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    with among_records(tmp_path_factory.mktemp("fleet"), "gpu000", records, {"alpha": stub("alpha")}) as host:
        yield host


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Hosts", exact=True).locator("tr.opens")


def by_state(page: Page) -> Locator:
    return page.get_by_role("group", name="Hosts by state").get_by_role("link")


def search(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search hosts and models")


def test_totals_of_the_whole_fleet_are_shown(visits: Visits) -> None:
    """Hosts by state, models, requests and memory, and each side of a difference in the configuration."""
    page = visits().go("fleet")

    expect(by_state(page)).to_have_text(STATES)
    expect(page.locator(".figure", has_text="Models ready")).to_contain_text("loading")
    expect(page.locator(".figure", has_text="Memory, gpu")).to_contain_text("of 156 TiB used")
    expect(page.get_by_text("Hosts differ in their configuration")).to_contain_text("on 498 hosts, 9f8e7d6c on 2 hosts")


def test_hosts_are_found_by_keyboard_and_kept_in_the_address(visits: Visits) -> None:
    """Words may be about the host and about one of its models; a reload shows the same hosts."""
    page = visits().go("fleet")
    search(page).focus()
    page.keyboard.type("zebra gpu499")
    expect(rows(page)).to_have_count(1)
    assert page.url.endswith("#/fleet?search=zebra+gpu499")
    page.reload()
    expect(search(page)).to_have_value("zebra gpu499")
    expect(rows(page)).to_contain_text(["gpu499"])
    search(page).fill("rack=r24")

    expect(rows(page)).to_have_count(20)
    expect(page.get_by_role("status").filter(has_text="20 hosts and 11 models found")).to_be_attached()


def test_a_state_shows_its_hosts(visits: Visits) -> None:
    """The link of a total and the link of a configuration lead to the same two hosts."""
    page = visits().go("fleet")
    by_state(page).filter(has_text="other configuration").press("Enter")
    expect(rows(page)).to_contain_text(["gpu498", "gpu499"])
    by_state(page).filter(has_text="all").click()
    expect(rows(page)).to_have_count(RENDERED)
    page.get_by_role("link", name="9f8e7d6c").click()

    expect(rows(page)).to_contain_text(["gpu498", "gpu499"])


def test_a_host_opens_to_its_models_and_is_cordoned_by_keyboard(visits: Visits) -> None:
    """An opened row has what the card of a host has in a small fleet, and stays open when its state changes."""
    page = visits().go("fleet", "?search=gpu123")
    page.get_by_role("button", name="gpu123", exact=True).press("Enter")
    expect(page.get_by_role("table", name="Models on gpu123").get_by_role("row")).to_have_count(1 + len(MODELS))
    expect(page.get_by_role("img", name="gpu0 on gpu123")).to_be_visible()
    page.get_by_role("button", name="Cordon gpu123").press("Enter")
    expect(rows(page)).to_contain_text(["cordoned"])
    expect(by_state(page).filter(has_text="cordoned")).to_have_text("1 cordoned")
    page.get_by_role("button", name="Uncordon gpu123").press("Enter")

    expect(rows(page)).to_contain_text(["ready"])


def test_a_host_that_lacks_a_file(visits: Visits) -> None:
    """Its row says so, and opens to the model and the file; the page still fits a phone."""
    page = visits(viewport={"width": 400, "height": 800}).go("fleet")
    by_state(page).filter(has_text="file missing").press("Enter")
    expect(rows(page)).to_contain_text(["gpu077"])
    expect(rows(page)).to_contain_text(["file missing"])
    page.get_by_role("button", name="gpu077", exact=True).press("Enter")

    expect(page.get_by_text("zebra cannot be loaded here, file missing: /models/zebra.gguf")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_models_are_listed_with_their_hosts(visits: Visits) -> None:
    """A model opens to the hosts that have it, and a move offers all others."""
    page = visits().go("fleet", "?search=zebra")
    page.get_by_role("link", name="1 model", exact=True).press("Enter")
    page.get_by_role("button", name="zebra", exact=True).press("Enter")
    page.get_by_role("button", name="Move zebra from gpu499").press("Enter")
    dialog = page.get_by_role("dialog", name="Move zebra from gpu499?")
    expect(dialog.get_by_role("option")).to_have_count(HOSTS - 1)
    dialog.get_by_label("New host").select_option("gpu042")
    expect(dialog.get_by_role("button", name="Move zebra to gpu042")).to_be_enabled()
    dialog.get_by_role("button", name="Cancel").press("Enter")
    page.get_by_role("table", name="Hosts with zebra").get_by_role("link", name="gpu499").click()

    expect(rows(page)).to_contain_text(["gpu499"])


def test_hosts_are_sorted_and_rendered_as_the_table_is_scrolled(visits: Visits) -> None:
    """Screen readers are told the number of all rows; End shows the next ones until the last host is there."""
    page = visits().go("fleet")
    table = page.get_by_role("table", name="Hosts", exact=True)
    expect(rows(page)).to_have_count(RENDERED)
    expect(table).to_have_attribute("aria-rowcount", str(HOSTS + 1))
    host = table.get_by_role("button", name="Host", exact=True)
    host.click()
    host.click()
    expect(rows(page).first).to_contain_text("gpu499")
    for rendered in range(2 * RENDERED, HOSTS + 1, RENDERED):
        page.get_by_role("region", name="Hosts", exact=True).press("End")
        expect(rows(page).nth(rendered - 1)).to_be_attached()

    expect(rows(page).last).to_contain_text("gpu000")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tables_are_accessible_and_fit_a_phone(visits: Visits, scheme: str) -> None:
    """axe-core finds no serious problem in either table with an opened row, and the page does not scroll sideways."""
    visit = visits(color_scheme=scheme, reduced_motion="reduce", viewport={"width": 400, "height": 800})
    page = visit.go("fleet", "?search=gpu49")
    page.get_by_role("button", name="gpu490", exact=True).click()
    expect(page.get_by_role("table", name="Models on gpu490")).to_be_visible()
    findings = visit.findings()
    page.get_by_role("link", name="11 models").click()
    page.get_by_role("button", name="model-00", exact=True).click()
    expect(page.get_by_role("table", name="Hosts with model-00")).to_be_visible()

    assert [*findings, *visit.findings()] == []
    assert page.evaluate("document.documentElement.scrollWidth") == 400
