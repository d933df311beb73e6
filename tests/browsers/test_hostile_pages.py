"""Hostile pages in a real browser: of another site, of another port, of a name that was made to point here, and of a
model server itself. None of them can load, unload, read or infer."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.browser import open_browser
from tests.support.evil import lure, serving
from tests.support.hotseat import Hotseat
from tests.support.stubs import stub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

EVIL, REBOUND = "evil.test", "rebound.test"
MANY = 20
"""Attempts that must have got as far as hotseat, else nothing was tried."""
MODELS = {"alpha": stub("alpha"), "beta": stub("beta")}

WEB_SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

PAGE = b'''<!doctype html><title>waits</title><script>
const tried = ["/hotseat/models", "/v1/models"].map((path) => fetch(path).then((answer) => answer.ok, () => false));
const unload = fetch("/upstream/hostile", {method: "DELETE"}).then((answer) => answer.status < 400, () => false);
Promise.all([...tried, unload]).then((worked) => { document.title = worked.join(" "); });
</script>'''

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

HTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1, MAP {REBOUND} 127.0.0.1"
    # Chromium's own guard of the local network would stop some of it; not all browsers have one.
    with open_browser(names, "--disable-features=LocalNetworkAccessChecks") as browser:
        yield browser


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Hotseat]:
    with Hotseat({"models": MODELS}, tmp_path) as house:
        yield house


def state(house: Hotseat) -> dict[str, Any]:
    """What attacks could have changed."""
    models = house.call("GET", "/hotseat/models").json()["models"]
    return {
        "pids": {model["model"]: model["pid"] for model in models},
        "requests": house.call("GET", "/hotseat/requests").json()["finished"],
        "actions": house.log().count('"message": "audit"'),
    }


@dataclass
class Attack:
    readable: list[str]
    """What the hostile page got to see."""
    statuses: Counter[int]
    """What hotseat said to it."""


def attacked(browser: Browser, house: Hotseat, url: str, page: str | None = None) -> Attack:
    """Open the hostile page at this address; `page` is what the attacker served there before."""
    context = browser.new_context()
    attack = Attack([], Counter())
    try:
        visit = context.new_page()
        if page is not None:
            visit.route(url, lambda route: route.fulfill(body=page, content_type="text/html"))
        at_us = f":{house.port}/"
        context.on("response", lambda answer: attack.statuses.update([answer.status] if at_us in answer.url else []))
        visit.goto(url)
        attack.readable = visit.evaluate("window.outcome")
        for opened in context.pages:
            opened.wait_for_load_state()
        return attack
    finally:
        context.close()


@pytest.mark.parametrize("host", [EVIL, "beta.localhost"])
def test_a_page_of_another_origin_can_do_nothing(house: Hotseat, browser: Browser, host: str) -> None:
    """Fetches, forms, tags, frames, beacons, websockets, feeds and windows: all refused before anything happens."""
    house.load("alpha")
    before = state(house)
    with serving(lure(house.url)) as site:
        attack = attacked(browser, house, f"http://{host}:{site.port}/")

    assert attack.readable == []
    assert set(attack.statuses) == {403}
    assert attack.statuses[403] > MANY
    assert state(house) == before


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_page_of_another_server_on_this_machine_can_only_ask_models(
    house: Hotseat, browser: Browser, host: str
) -> None:
    """It reads their answers and their list; it loads, unloads, manages and reads nothing else."""
    house.load("alpha")
    before = state(house)
    with serving(lure(house.url)) as site:
        attack = attacked(browser, house, f"http://{host}:{site.port}/")

    assert {each.partition(":")[0] for each in attack.readable} == {
        "GET /v1/models",
        "POST /v1/chat/completions",
        "POST /completion",
        "POST /upstream/beta/v1/chat/completions",
    }
    assert attack.statuses[403] > MANY // 2
    assert state(house)["actions"] == before["actions"]


def test_our_own_page_may_use_every_name_of_this_machine(house: Hotseat, browser: Browser) -> None:
    """Opened as localhost, it asks 127.0.0.1: to a browser these are two origins, to us they are one."""
    context = browser.new_context()
    page = context.new_page()
    asked = """async (base) => [(await fetch(base + "/hotseat/config")).status,
        (await fetch(base + "/upstream/alpha", {method: "DELETE"})).status]"""
    page.route("**/swagger", lambda route: route.fulfill(body="<title>ours</title>", content_type="text/html"))
    page.goto(f"http://localhost:{house.port}/swagger")  # without the policy of that page, which allows 'self' only
    statuses = page.evaluate(asked, f"http://127.0.0.1:{house.port}")
    context.close()

    assert statuses == [200, 409]


def test_a_name_that_was_made_to_point_here_can_do_nothing(house: Hotseat, browser: Browser) -> None:
    """To the browser the page and hotseat are one origin, and only the name tells that they are not."""
    house.load("alpha")
    before = state(house)
    attack = attacked(browser, house, f"http://{REBOUND}:{house.port}/lure", lure(""))
    del attack.statuses[200]  # the attacker's own page

    assert attack.readable == []
    assert set(attack.statuses) == {403}
    assert attack.statuses[403] > MANY
    assert state(house) == before


def test_a_link_from_elsewhere_loads_nothing(house: Hotseat, browser: Browser) -> None:
    """Following it is a navigation, which browsers' own guards against the local network let through."""
    before = state(house)
    with serving(f'<a id="link" href="{house.url}/upstream/beta/load">kittens</a>') as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://{EVIL}:{site.port}/")
        with page.expect_response(f"{house.url}/upstream/beta/load") as answer:
            page.click("#link")
        status = answer.value.status
        context.close()

    assert status == 403
    assert state(house) == before


def test_a_page_of_an_allowed_origin_can_do_it_all(tmp_path: Path, browser: Browser) -> None:
    """`allowedOrigins` is for browser apps; and what the page tries does work where it may."""
    with serving() as site:
        origin = f"http://{EVIL}:{site.port}"
        with Hotseat({"allowedOrigins": [origin], "models": MODELS}, tmp_path) as house:
            house.load("alpha")
            site.page = lure(house.url)
            attack = attacked(browser, house, f"{origin}/")

    tried = {each.partition(":")[0] for each in attack.readable}
    assert {"GET /v1/models", "GET /upstream/beta/load", "POST /v1/chat/completions", "events"} <= tried
    assert '"did": "DELETE /upstream/alpha"' in house.log()


def hostile(tmp_path: Path, **more: Any) -> dict[str, Any]:
    program = tmp_path / "web_server.py"
    program.write_text(WEB_SERVER)
    cmd = f"{shlex.quote(sys.executable)} {shlex.quote(str(program))} ${{PORT}}"
    return {"models": {"hostile": {"cmd": cmd}}, **more}


def title_of(browser: Browser, url: str) -> str:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(url)
        page.wait_for_function("document.title !== 'waits'")
        return page.title()
    finally:
        context.close()


def test_a_page_of_a_model_server_can_do_nothing(tmp_path: Path, browser: Browser) -> None:
    """Though it has our address, it is in a sandbox: it can neither read what runs nor unload it."""
    with Hotseat(hostile(tmp_path), tmp_path) as house:
        pid = house.load("hostile")
        worked = title_of(browser, f"{house.url}/upstream/hostile/")
        after = house.call("GET", "/health").json()["models"]

    assert worked == "false false false"
    assert after["hostile"]["pid"] == pid


def test_a_trusted_page_of_a_model_server_can(tmp_path: Path, browser: Browser) -> None:
    """`upstream.trustPages: true` gives it what our own pages may."""
    with Hotseat(hostile(tmp_path, upstream={"trustPages": True}), tmp_path) as house:
        house.load("hostile")
        worked = title_of(browser, f"{house.url}/upstream/hostile/")

    assert worked == "true true true"
