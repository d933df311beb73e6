"""The page of the fleet, in a real browser, with two real hosts and a real NATS server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from tests.support.browser import Visit
from tests.support.client import eventually
from tests.support.fleet_journey import fleet_of
from tests.support.stubs import stub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Locator, Page
    from tests.support.fleet_journey import Hosts
    from tests.support.hotseat import Hotseat

    Visits = Callable[..., Visit]

pytestmark = pytest.mark.timeout(180)

GIB = 1 << 30


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    models = {"alpha": stub("alpha", memory=6 * GIB), "beta": stub("beta", memory=2 * GIB)}
    with fleet_of(
        tmp_path_factory.mktemp("fleet"), "a", "b", models=models, nats=1, devices={"gpu0": {"memory": 10 * GIB}}
    ) as fleet:
        yield fleet


@pytest.fixture
def at_a(hosts: Hosts, browser: Browser) -> Iterator[Visits]:
    """Somebody opens the dashboard of host a; afterwards the page must have behaved."""
    begun: list[Visit] = []

    def visit(**context: Any) -> Visit:
        begun.append(Visit(browser.new_context(**context).new_page(), hosts["a"].url))
        return begun[-1]

    yield visit
    faults = [fault for visit in begun for fault in [*visit.complaints, *visit.violations()]]
    for visit_ in begun:
        visit_.page.context.close()
    assert faults == []


def card(page: Page, host: str) -> Locator:
    return page.get_by_role("region", name=host, exact=True)


def test_each_host_is_seen_with_its_models(at_a: Visits, hosts: Hosts) -> None:
    """Where they are, what they take of which room, and what is said of a host changes as it happens."""
    page = at_a().go("fleet")
    expect(card(page, "a")).to_contain_text("here")
    expect(card(page, "b")).to_contain_text("heard")
    hosts["b"].load("alpha")

    expect(card(page, "b").get_by_role("cell", name="alpha", exact=True)).to_be_visible()
    expect(card(page, "b").get_by_role("img", name="gpu0 of b: alpha 6 GiB, free 4 GiB")).to_be_visible()
    expect(card(page, "a")).to_contain_text("No model is there.")


def test_a_model_is_moved_by_keyboard(at_a: Visits, hosts: Hosts) -> None:
    """A dialog asks where to; the page tells what was done, and shows the model where it is now."""
    page = at_a().go("fleet")
    hosts["b"].load("beta")
    page.get_by_role("button", name="Move beta from b").press("Enter")
    page.get_by_role("button", name="Move beta to a").press("Enter")

    expect(card(page, "a").get_by_role("cell", name="beta", exact=True)).to_be_visible()
    expect(card(page, "b").get_by_role("cell", name="beta", exact=True)).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="beta")).to_be_visible()
    hosts["a"].call("DELETE", "/upstream/beta")


def test_a_host_is_closed_and_opened_by_keyboard(at_a: Visits) -> None:
    """Two buttons a host; what was ordered stands beside its name until it is taken back."""
    page = at_a().go("fleet")
    page.get_by_role("button", name="Cordon b").press("Enter")
    expect(card(page, "b").locator(".tag")).to_have_text("cordoned")
    page.get_by_role("button", name="Uncordon b").press("Enter")
    expect(card(page, "b").locator(".tag")).to_have_count(0)
    page.get_by_role("button", name="Drain b").click()
    expect(card(page, "b").locator(".tag")).to_have_text("drained")
    expect(card(page, "b")).to_contain_text("No model is there.")
    page.get_by_role("button", name="Undrain b").click()
    expect(card(page, "b").locator(".tag")).to_have_count(0)


def test_orders_of_a_host_that_is_not_there_can_be_taken_back(at_a: Visits, hosts: Hosts) -> None:
    """They wait for it; without orders nothing is told of a host that is gone."""
    hosts.start("c", {})
    page = at_a().go("fleet")
    page.get_by_role("button", name="Cordon c").click()
    expect(card(page, "c").locator(".tag")).to_have_text("cordoned")
    hosts["c"].terminate()
    expect(card(page, "c")).to_contain_text("not there", timeout=30_000)
    page.get_by_role("button", name="Uncordon c").click()

    expect(card(page, "c")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_and_fits_a_phone(at_a: Visits, scheme: str) -> None:
    """axe-core finds nothing serious, and at 400 pixels nothing reaches beyond the edge."""
    visit = at_a(color_scheme=scheme, reduced_motion="reduce", viewport={"width": 400, "height": 800})
    page = visit.go("models")
    page.get_by_role("button", name="Menu").click()
    page.locator("nav a[href='#/fleet']").click()
    expect(card(page, "b")).to_be_visible()

    assert visit.findings() == []
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_host_that_is_apart_says_so(at_a: Visits, hosts: Hosts) -> None:
    """In the menu and on the page; when NATS is back, so is the fleet."""
    page = at_a().go("fleet")
    [nats] = hosts.nats
    nats.kill()
    try:
        expect(page.get_by_text("a is apart from the fleet")).to_be_visible(timeout=30_000)
        expect(page.locator("nav a[href='#/fleet']")).to_contain_text("apart")
        ready = hosts["a"].call("GET", "/hotseat/ready")
    finally:
        nats.start()
    eventually(lambda: all(standing(hosts[name]) == "together" for name in "ab"), within=60.0)

    assert (ready.status, ready.json()["fleet"]) == (200, "apart")


def standing(host: Hotseat) -> str:
    return str(host.call("GET", "/hotseat/fleet").json()["standing"])


@pytest.mark.llama
def test_who_is_alone_sees_no_fleet(visits: Visits) -> None:
    """There is no such page in the menu, and its address says what to do."""
    page = visits().go("fleet")

    expect(page.locator("nav a[href='#/fleet']")).to_have_count(0)
    expect(page.locator(".page-head")).to_contain_text("This hotseat is alone")
