"""The playground in a real browser: two models, images, stop and regenerate, and code to copy."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.browser import REPOSITORY
from tests.support.client import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page
    from tests.support.browser import Visit, Visits
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

LONG = "8000"
"""Tokens: several seconds, even for a tiny model."""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def chat_with(page: Page, model: str) -> Locator:
    return page.get_by_role("region", name=model, exact=True)


def send(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_label("Your message").press("Enter")


def test_two_models_answer_the_same_message(visit: Visit, hotseat: Hotseat) -> None:
    """Each has its own answer and rates, and the one that had to be loaded says what it waited for."""
    hotseat.load("alpha")
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.get_by_role("combobox", name="Compare with").select_option("beta")
    page.get_by_label("Max tokens").fill("24")
    send(page, "hello")

    for model in ("alpha", "beta"):
        expect(chat_with(page, model).locator(".speed")).to_contain_text("tokens/s")
        expect(chat_with(page, model).get_by_text("hello")).to_be_visible()
    expect(chat_with(page, "beta").locator(".wait")).to_contain_text("waited for beta to load after evicting alpha")
    expect(chat_with(page, "alpha").locator(".wait")).to_have_count(0)


def test_a_waiting_answer_says_why(visit: Visit, hotseat: Hotseat) -> None:
    """While alpha answers, beta shows what it waits for; each can be stopped alone."""
    hotseat.load("alpha")
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.get_by_role("combobox", name="Compare with").select_option("beta")
    page.get_by_label("Max tokens").fill(LONG)
    send(page, "hello")
    expect(chat_with(page, "beta").locator(".wait")).to_contain_text("alpha")
    page.get_by_role("button", name="Stop beta").click()
    expect(chat_with(page, "beta").locator(".said.assistant")).to_have_count(0)
    expect(chat_with(page, "alpha").locator(".said.assistant")).to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Stop alpha").click()

    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_second_model_can_be_asked_later(visit: Visit, hotseat: Hotseat) -> None:
    """It starts with the conversation so far and is asked only when the user says so."""
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.get_by_label("Max tokens").fill("8")
    send(page, "hello")
    expect(chat_with(page, "alpha").locator(".speed")).to_contain_text("tokens")
    page.get_by_role("combobox", name="Compare with").select_option("beta")
    expect(chat_with(page, "beta").locator(".said.user")).to_contain_text("hello")
    running = hotseat.running()
    page.get_by_role("button", name="Ask beta").click()
    expect(chat_with(page, "beta").locator(".speed")).to_contain_text("tokens")

    assert "beta" not in running


def test_a_stopped_answer_is_generated_again(visit: Visit) -> None:
    """Stop keeps the text so far, and Regenerate replaces it."""
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.get_by_label("Max tokens").fill(LONG)
    send(page, "hello")
    expect(page.locator(".said.assistant p")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.get_by_label("Max tokens").fill("5")
    page.get_by_role("button", name="Regenerate alpha").click()

    expect(page.locator(".speed")).to_contain_text("5 tokens")
    expect(page.locator(".said.user")).to_have_count(1)


def test_an_image_is_sent_with_the_message(visit: Visit) -> None:
    """The model server receives it: this one has no vision and says so."""
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.locator("input[type=file]").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": PIXEL})
    expect(page.get_by_role("img", name="Image 1", exact=True)).to_be_visible()
    send(page, "what is this?")

    expect(page.get_by_role("img", name="Image 1 of this message")).to_be_visible()
    expect(page.locator(".said.assistant .trouble")).to_contain_text("image input is not supported")
    expect(page.get_by_role("button", name="Remove image 1")).to_have_count(0)
    visit.problems[:] = [each for each in visit.problems if "status of 500" not in each]


def test_images_are_not_offered_to_a_model_without_vision(visit: Visit) -> None:
    """Only a model that declares what it takes is known to take none."""
    page = visit.go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    expect(page.get_by_role("button", name="Add image")).to_be_visible()
    page.get_by_role("combobox", name="Model").select_option("embed")

    expect(page.get_by_role("button", name="Add image")).to_have_count(0)


def test_the_copied_code_works(visits: Visits, tmp_path: Path) -> None:
    """As Python and as JavaScript, with the usual client of each language."""
    page = visits(permissions=["clipboard-read", "clipboard-write"]).go("playground")
    page.get_by_role("combobox", name="Model").select_option("alpha")
    page.get_by_label("System prompt").fill('say "it\'s"')
    page.get_by_label("Max tokens").fill("24")
    send(page, "hello")
    expect(page.locator(".speed")).to_contain_text("tokens/s")

    assert ran([sys.executable], tmp_path / "copied.py", copied(page, "Python"))
    (tmp_path / "node_modules").symlink_to(REPOSITORY / "clients/node/node_modules")
    assert ran(["node"], tmp_path / "copied.mjs", copied(page, "JavaScript"))


def copied(page: Page, language: str) -> str:
    page.get_by_role("button", name=f"Copy as {language}").click()
    expect(page.locator(".notice")).to_contain_text("Copied")
    code: str = page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="Dismiss").click()
    return code


def ran(program: list[str], file: Path, code: str) -> str:
    """What the code prints."""
    file.write_text(code)
    done = subprocess.run([*program, str(file)], capture_output=True, text=True, timeout=PATIENCE_S, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout
