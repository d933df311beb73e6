"""The web page of a real llama-server, opened from the dashboard in a real browser.

Debian's llama-server is built without its own interface, so it serves a small page (`--path`) that uses its API.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.browser import PATIENCE_MS, Visit, open_browser
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

CHAT = """<!doctype html><html lang="en"><title>Chat</title><script src="/chat.js" defer></script>
<form><input aria-label="Message" required><button>Send</button></form><ol></ol></html>"""
SCRIPT = """
const list = document.querySelector("ol"), input = document.querySelector("input");
const said = JSON.parse(localStorage.getItem("chat") ?? "[]");
const show = () => list.replaceChildren(...said.map(({role, content}) => {
  const item = document.createElement("li");
  item.textContent = role + ": " + content;
  return item;
}));
show();
document.querySelector("form").onsubmit = async (event) => {
  event.preventDefault();
  said.push({role: "user", content: input.value}, {role: "assistant", content: ""});
  const body = JSON.stringify({messages: said.slice(0, -1), stream: true, max_tokens: 8});
  const headers = {"Content-Type": "application/json"};
  const answer = await fetch("/v1/chat/completions", {method: "POST", headers, body});
  let rest = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\\n");
    rest = lines.pop();
    for (const line of lines.filter((each) => each.startsWith("data: {")))
      said.at(-1).content += JSON.parse(line.slice(6)).choices[0]?.delta.content ?? "";
    show();
  }
  localStorage.setItem("chat", JSON.stringify(said));
  document.title = "Done";
};
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser("--host-resolver-rules=MAP box 127.0.0.1") as browser:
        yield browser


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "index.html").write_text(CHAT)
    (folder / "chat.js").write_text(SCRIPT)
    served = llama("alpha", f"--path {shlex.quote(str(folder))}")
    with ForkedHotseat({"models": {"Org/Chat.1": served}}, tmp_path_factory.mktemp("hotseat")) as rig:
        yield rig


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_chat_on_the_page_of_a_model_server(rig: Hotseat, browser: Browser, host: str) -> None:
    """One click opens the page in a new tab and loads the model; the page chats, and keeps the chat in its storage."""
    rig.call("DELETE", "/upstream/Org/Chat.1")
    visit = Visit(browser.new_context().new_page(), f"http://{host}:{rig.port}")
    link = visit.go("models", "?model=Org/Chat.1").get_by_role("link", name="Open its web page")
    with visit.page.context.expect_page(timeout=PATIENCE_MS) as opened:
        link.click()
    chat = opened.value
    chat.wait_for_url(f"http://org-chat-1.localhost:{rig.port}/", timeout=PATIENCE_MS)
    talk(chat, "hello")
    answered = chat.locator("li").all_text_contents()
    chat.reload()

    assert rig.running() == ["Org/Chat.1"]
    assert answered[0] == "user: hello"
    assert len(answered[1]) > len("assistant: ")
    expect(chat.locator("li")).to_have_text(answered)
    assert [*visit.problems, *visit.violations(), *visit.findings()] == []
    visit.page.context.close()


def talk(chat: Page, message: str) -> None:
    chat.get_by_label("Message").fill(message)
    chat.get_by_role("button", name="Send").click()
    chat.wait_for_function("document.title === 'Done'", timeout=PATIENCE_MS)


def test_a_page_opened_from_the_dashboard_cannot_reach_it(rig: Hotseat, browser: Browser) -> None:
    """The new tab has no handle of the dashboard that opened it."""
    visit = Visit(browser.new_context().new_page(), rig.url)
    link = visit.go("models", "?model=Org/Chat.1").get_by_role("link", name="Open its web page")
    with visit.page.context.expect_page(timeout=PATIENCE_MS) as opened:
        link.click()

    assert opened.value.evaluate("window.opener") is None
    visit.page.context.close()


def test_no_link_is_shown_where_the_name_is_another_machine(rig: Hotseat, browser: Browser) -> None:
    """At a name other than loopback, LABEL.localhost would be the reader's own machine."""
    page = Visit(browser.new_context().new_page(), f"http://box:{rig.port}").go("models", "?model=Org/Chat.1")

    expect(page.get_by_text("Usual load time")).to_be_visible()
    expect(page.get_by_role("link", name="Open its web page")).to_have_count(0)
    page.context.close()
