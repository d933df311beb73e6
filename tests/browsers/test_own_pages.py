"""Pages of model servers at LABEL.localhost, in a real browser: they work, and reach nothing but their own server."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.browsers.test_hostile_pages import EVIL, MANY, actions, attacked, browser, outcome, title_of
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hostile_page import hostile_page, serving
from tests.support.stubs import stub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser
    from tests.support.hotseat import Hotseat

__all__ = ["browser"]  # a fixture

SERVER = """
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        page = pathlib.Path(sys.argv[1], path.strip("/") or "index").with_suffix(".html")
        body = page.read_bytes() if page.exists() else b"from the model server"
        self.send_response(200 if page.exists() or path == "/health" else 404)
        self.send_header("Content-Type", "text/html" if page.exists() else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_GET

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Page).serve_forever()
"""
WORKING = """<!doctype html><title>waits</title><script>
localStorage.setItem("kept", "storage");
fetch("/health?x=1").then((answer) => answer.text()).then((text) => {
  document.title = [localStorage.getItem("kept"), text, location.href].join(", ");
});
</script>"""
LEAVING = """<!doctype html><title>waits</title><meta name="referrer" content="unsafe-url"><script>
location.href = "%s";
</script>"""


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """The folder of the model server's pages."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "index.html").write_text(WORKING)
    return folder


@pytest.fixture
def rig(pages: Path, tmp_path: Path) -> Iterator[Hotseat]:
    with ForkedHotseat(config(pages, tmp_path), tmp_path) as rig:
        yield rig


def config(pages: Path, tmp_path: Path) -> dict[str, Any]:
    program = tmp_path / "web_server.py"
    program.write_text(SERVER)
    cmd = " ".join(map(shlex.quote, (sys.executable, str(program), str(pages)))) + " ${PORT}"
    models = {"Org/Hostile": {"cmd": cmd}, "alpha": stub("alpha"), "beta": stub("beta")}
    groups = {"all": {"swap": False, "exclusive": False, "members": list(models)}}
    return {"models": models, "groups": groups}


def own(rig: Hotseat, path: str = "/") -> str:
    return f"http://org-hostile.localhost:{rig.port}{path}"


def others(rig: Hotseat) -> dict[str, Any]:
    """All that the hostile page must not change: every process, requests to other models, and actions."""
    finished = rig.call("GET", "/hotseat/requests").json()["finished"]
    return {
        "running": {name: model["pid"] for name, model in rig.health().items()},
        "requests": [each for each in finished if each["model"] != "Org/Hostile"],
        "actions": [line for line in actions(rig) if "org-hostile.localhost/" not in line],
    }


@pytest.mark.parametrize("path", ["/upstream/Org/Hostile/", "/upstream/Org/Hostile"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_browser_is_led_to_the_page_and_the_page_works(rig: Hotseat, browser: Browser, host: str, path: str) -> None:
    """It has storage and its own API at the root of its address, and opening it started the model."""
    title = title_of(browser, f"http://{host}:{rig.port}{path}")

    assert title == f"storage, from the model server, {own(rig)}"


@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:{port}", "http://localhost:{port}", "http://beta.localhost:{port}", ""]
)
def test_a_page_at_its_own_address_can_use_its_own_server_only(
    rig: Hotseat, pages: Path, browser: Browser, base: str
) -> None:
    """Fetches, forms, tags, frames, beacons, websockets and windows: hotseat and other servers refuse all of them."""
    base = base.format(port=rig.port)
    (pages / "index.html").write_text(hostile_page(base))
    rig.load("alpha")
    rig.load("Org/Hostile")
    before = others(rig)
    attack = attacked(browser, rig, own(rig))

    assert others(rig) == before
    assert attack.readable == (
        [] if base else ["GET /health: from the model server", "no-cors /health: from the model server"]
    )
    if base:
        assert attack.statuses[403] > MANY
        assert attack.statuses.total() - attack.statuses[403] <= 2  # the page and its icon


@pytest.mark.parametrize("path", ["/", "/?q=hello", "/hotseat/ui/"])
def test_a_link_on_another_site_opens_no_page(rig: Hotseat, browser: Browser, path: str) -> None:
    """Following it would load the model, and the page might act on its query."""
    before = others(rig)
    with serving(f'<a id="link" href="{own(rig, path)}" referrerpolicy="unsafe-url">kittens</a>') as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://{EVIL}:{site.port}/")
        with page.expect_response(own(rig, path)) as answer:
            page.click("#link")
        status = answer.value.status
        context.close()

    assert status == 403
    assert others(rig) == before == {"running": {}, "requests": [], "actions": []}


def test_a_sandboxed_page_cannot_pass_for_the_dashboard(rig: Hotseat, pages: Path, browser: Browser) -> None:
    """A page under hotseat's own name sends no Referer from its sandbox, so it cannot open another model's page."""
    target = f"http://beta.localhost:{rig.port}/"
    (pages / "leaving.html").write_text(LEAVING % target)
    context = browser.new_context()
    page = context.new_page()
    with page.expect_response(target) as answer:
        page.goto(f"http://localhost:{rig.port}/leaving?model=Org/Hostile", wait_until="commit")
    status = answer.value.status
    context.close()

    assert status == 403
    assert rig.running() == ["Org/Hostile"]


def test_a_page_of_a_removed_model_gets_no_rights(rig: Hotseat, pages: Path, tmp_path: Path, browser: Browser) -> None:
    """While it is open its model is removed; its address is then nobody's, and not hotseat's."""
    context = browser.new_context()
    page = context.new_page()
    assert outcome(page, own(rig)).startswith("storage")
    changed = config(pages, tmp_path)
    del changed["models"]["Org/Hostile"], changed["groups"]
    rig.write(changed)
    assert rig.call("POST", "/hotseat/reload").status == 200
    tried = """async () => [(await fetch("/hotseat/config")).status,
        (await fetch("/hotseat/reload", {method: "POST"})).status, (await fetch("/upstream/alpha/load")).status]"""
    statuses = page.evaluate(tried)
    context.close()

    assert statuses == [404, 404, 404]
    assert rig.running() == []
