"""The fleet page, in a real browser, with two real hosts and a real NATS server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.browser import visits_to
from tests.support.fleet_journey import fleet_of
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page
    from tests.support.browser import Visits
    from tests.support.fleet_journey import Hosts
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.timeout(180)

GIB = 1 << 30
SLOW = stub("slow", "--token-delay 0.1", memory=GIB)
LONG = 2_000
"""So many tokens of it take minutes."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    models = {"alpha": stub("alpha", memory=6 * GIB), "beta": stub("beta", memory=2 * GIB), "slow": SLOW}
    with fleet_of(
        tmp_path_factory.mktemp("fleet"), "a", "b", models=models, nats=1, devices={"gpu0": {"memory": 10 * GIB}}
    ) as fleet:
        yield fleet


@pytest.fixture
def at_a(hosts: Hosts, browser: Browser) -> Iterator[Visits]:
    with visits_to(hosts["a"].url, browser) as visits:
        yield visits


def card(page: Page, host: str) -> Locator:
    return page.get_by_role("region", name=host, exact=True)


def test_each_host_is_listed_with_its_models(at_a: Visits, hosts: Hosts) -> None:
    """The page updates the models and the memory of a host without a reload."""
    page = at_a().go("fleet")
    expect(card(page, "a")).to_contain_text("this host")
    expect(card(page, "b")).to_contain_text("last seen")
    hosts["b"].load("alpha")

    expect(card(page, "b").get_by_role("cell", name="alpha", exact=True)).to_be_visible()
    expect(card(page, "b").get_by_role("img", name="gpu0 on b: alpha 6 GiB, free 4 GiB")).to_be_visible()
    expect(card(page, "a")).to_contain_text("No models on this host.")


def test_a_search_leaves_the_cards_that_fit(at_a: Visits) -> None:
    """A small fleet is shown as cards, without a table of hosts, whatever is searched."""
    page = at_a().go("fleet", "?search=this+host")
    expect(card(page, "a")).to_be_visible()
    expect(card(page, "b")).to_have_count(0)
    page.get_by_role("searchbox").fill("zebra")
    expect(page.get_by_text("No matching hosts.")).to_be_visible()
    page.get_by_role("searchbox").fill("")

    expect(card(page, "b")).to_be_visible()
    expect(page.get_by_role("table", name="Hosts", exact=True)).to_have_count(0)


def test_a_model_is_moved_by_keyboard(at_a: Visits, hosts: Hosts) -> None:
    """A dialog asks for the target host; the page shows the result, and the model on its new host."""
    page = at_a().go("fleet")
    hosts["b"].load("beta")
    page.get_by_role("button", name="Move beta from b").press("Enter")
    page.get_by_role("button", name="Move beta to a").press("Enter")

    expect(card(page, "a").get_by_role("cell", name="beta", exact=True)).to_be_visible()
    expect(card(page, "b").get_by_role("cell", name="beta", exact=True)).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="beta")).to_be_visible()
    hosts["a"].call("DELETE", "/upstream/beta")


def test_a_host_is_cordoned_and_drained_by_keyboard(at_a: Visits) -> None:
    """A tag beside the host's name shows each state until it is undone."""
    page = at_a().go("fleet")
    page.get_by_role("button", name="Cordon b").press("Enter")
    expect(card(page, "b").locator(".tag")).to_have_text("cordoned")
    page.get_by_role("button", name="Uncordon b").press("Enter")
    expect(card(page, "b").locator(".tag")).to_have_count(0)
    page.get_by_role("button", name="Drain b").click()
    expect(card(page, "b").locator(".tag")).to_have_text("drained")
    expect(card(page, "b")).to_contain_text("No models on this host.")
    page.get_by_role("button", name="Undrain b").click()
    expect(card(page, "b").locator(".tag")).to_have_count(0)


def test_an_offline_host_can_be_uncordoned(at_a: Visits, hosts: Hosts) -> None:
    """A cordoned host stays listed when it goes offline; without a cordon it disappears. Its models are not those of
    the two others, so it alone is marked."""
    hosts.start("c", {})
    page = at_a().go("fleet")
    page.get_by_role("button", name="Cordon c").click()
    expect(card(page, "c").locator(".tag")).to_have_text(["cordoned", "other configuration"])
    expect(page.locator(".tag")).to_have_count(2)
    hosts["c"].terminate()
    expect(card(page, "c")).to_contain_text("offline")
    expect(page.get_by_role("link", name="1 offline")).to_be_visible()
    page.get_by_role("button", name="Uncordon c").click()

    expect(card(page, "c")).to_have_count(0)


def test_a_host_lacks_the_file_of_a_model(at_a: Visits, hosts: Hosts, tmp_path: Path) -> None:
    """Its card says which model and which file, and a link shows such hosts, until the file is there."""
    file = tmp_path / "gamma.gguf"
    hosts.start("d", {"gamma": {"cmd": f"llama-server -m {file} --port ${{PORT}}"}})
    page = at_a().go("fleet")
    expect(card(page, "d")).to_contain_text(f"gamma cannot be loaded here, file missing: {file}")
    page.get_by_role("link", name="1 file missing").press("Enter")
    expect(card(page, "d")).to_be_visible()
    expect(card(page, "a")).to_have_count(0)
    page.get_by_role("link", name="all 3").press("Enter")
    file.touch()
    expect(card(page, "d")).not_to_contain_text("file missing", timeout=60_000)
    hosts["d"].terminate()
    expect(card(page, "d")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_and_fits_a_phone(at_a: Visits, scheme: str) -> None:
    """axe-core finds no serious problem, and at a width of 400 pixels the page does not scroll horizontally."""
    visit = at_a(color_scheme=scheme, reduced_motion="reduce", viewport={"width": 400, "height": 800})
    page = visit.go("models")
    page.get_by_role("button", name="Menu").click()
    page.locator("nav a[href='#/fleet']").click()
    expect(card(page, "b")).to_be_visible()

    assert visit.findings() == []
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_disconnected_host_says_so(at_a: Visits, hosts: Hosts) -> None:
    """The navigation and the page show it; when NATS is back, all hosts reconnect."""
    page = at_a().go("fleet")
    [nats] = hosts.nats
    nats.kill()
    try:
        expect(page.get_by_text("a is disconnected from the fleet")).to_be_visible()
        expect(page.locator("nav a[href='#/fleet']")).to_contain_text("disconnected")
        ready = hosts["a"].call("GET", "/hotseat/ready")
    finally:
        nats.start()
    eventually(lambda: all(connection(hosts[name]) == "connected" for name in "ab"), within=60.0)

    assert (ready.status, ready.json()["fleet"]) == (200, "disconnected")


def connection(host: Hotseat) -> str:
    return str(host.call("GET", "/hotseat/fleet").json()["connection"])


def test_a_forwarded_request_is_listed_and_cancelled(at_a: Visits, hosts: Hosts) -> None:
    """Activity of the host that the client asked names the host that serves it, and ends it there."""
    hosts["b"].load("slow")
    eventually(lambda: "slow" in residents(hosts["a"], "b"))
    page = at_a().go("activity")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(hosts["a"].chat, "slow", LONG)
        row = page.get_by_role("region", name="Requests in progress").get_by_role("row").filter(has_text="slow on b")
        row.get_by_role("button").first.press("Enter")
        expect(page.locator(".reasons")).to_contain_text("It was forwarded to b, which has not answered yet.")
        row.get_by_role("button", name="Cancel").click()
        answer = asking.result()

    assert (answer.status, answer.headers["X-Error-Code"]) == (503, "request_cancelled")


def residents(seen_by: Hotseat, host: str) -> set[str]:
    hosts = seen_by.call("GET", "/hotseat/fleet").json()["hosts"]
    return {resident["model"] for each in hosts if each["host"] == host for resident in each["residents"]}


@pytest.mark.llama
def test_a_host_without_a_fleet_shows_no_fleet_page(visits: Visits) -> None:
    """The navigation has no such page, and its URL says how to join a fleet."""
    page = visits().go("fleet")

    expect(page.locator("nav a[href='#/fleet']")).to_have_count(0)
    expect(page.locator(".page-head")).to_contain_text("This host does not belong to a fleet")
