"""A real Chromium, and a page that records errors, warnings and requests to other hosts."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Page

    Visits: TypeAlias = "Callable[..., Visit]"

REPOSITORY = Path(__file__).parents[2]
PATIENCE_MS = 60_000
"""What a page shows follows a load or an unload, which take seconds on a busy machine."""
AXE = REPOSITORY / "dashboard/node_modules/axe-core/axe.min.js"
PAGES = ("models", "timeline", "memory", "queue", "activity", "usage", "logs", "playground", "config")

NOTE_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


def chromium() -> str:
    """The path of Debian's Chromium, or HOTSEAT_CHROMIUM."""
    found = os.environ.get("HOTSEAT_CHROMIUM") or shutil.which("chromium")
    assert found, "chromium is missing: install Debian's package `chromium`, or set HOTSEAT_CHROMIUM"
    return found


@contextmanager
def open_browser(*options: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # As root, as in CI, Chromium's own sandbox refuses to start.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", *options])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """One browser session on the dashboard."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    """Errors and warnings of the page, and requests that left the host."""

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        self.page.add_init_script(NOTE_VIOLATIONS)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", lambda request: self._on_request(request.url))

    def go(self, page: str, query: str = "") -> Page:
        """Open a page of the dashboard and wait until it shows the models."""
        self.page.goto(f"{self.url}/hotseat/ui/#/{page}{query}")
        self.page.locator(".dots li").first.wait_for(state="attached")
        self.page.get_by_role("heading", level=1, name=page.capitalize()).wait_for()
        return self.page

    def findings(self) -> list[str]:
        """Findings of axe-core on the current page that are serious or worse."""
        self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{finding['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for finding in found["violations"]
            if finding["impact"] in ("serious", "critical")
            for node in finding["nodes"]
        ]

    def violations(self) -> list[str]:
        return list(self.page.evaluate("window.violations"))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _on_request(self, url: str) -> None:
        if not url.startswith((self.url, "blob:", "data:")):
            self.problems.append(f"asked {urlsplit(url).netloc}")


@contextmanager
def visits_to(url: str, browser: Browser) -> Iterator[Visits]:
    """Opens the dashboard; afterwards no page may have had errors."""
    begun: list[Visit] = []

    def visit(**context: Any) -> Visit:
        context.setdefault("viewport", {"width": 1280, "height": 900})
        begun.append(Visit(browser.new_context(**context).new_page(), url))
        return begun[-1]

    yield visit
    faults = [fault for visit in begun for fault in [*visit.problems, *visit.violations()]]
    for visit_ in begun:
        visit_.page.context.close()
    assert faults == []
