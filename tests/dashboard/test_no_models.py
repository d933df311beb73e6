"""The dashboard of a machine that has no models yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect
from tests.support.browser import Visit
from tests.support.forked_hotseat import ForkedHotseat

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


def test_a_machine_without_models_shows_how_to_get_some(browser: Browser, tmp_path: Path) -> None:
    """It is the first page that a newcomer sees after `hotseat init` found nothing."""
    template = {"path": str(tmp_path / "models"), "cmd": "llama-server -m ${MODEL_PATH} --port ${PORT}"}
    with ForkedHotseat({"modelsDir": template}, tmp_path) as hotseat:
        visit = Visit(browser.new_page(), hotseat.url)
        visit.page.goto(f"{hotseat.url}/hotseat/ui/")

        expect(visit.page.get_by_role("main")).to_contain_text("No models yet. hotseat pull ORG/REPO downloads one")
        visit.page.goto(f"{hotseat.url}/hotseat/ui/#/playground")
        expect(visit.page.get_by_role("main")).to_contain_text("There are no models to chat with. The page Models says")
        assert visit.findings() == []
        assert visit.problems == []
