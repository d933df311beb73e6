"""`just screenshots`: every page of the dashboard, light and dark, with real model servers and some traffic.

The models are tiny ones under the names of large ones and take a few seconds to load, so that the pages show loads; one
has no file, so that they show an error.
"""

from __future__ import annotations

import os
import random
import shlex
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect
from tests.support.browser import PAGES, REPOSITORY, Visit, open_browser
from tests.support.fleet_journey import fleet_of
from tests.support.fleet_of_records import among_records, host_record
from tests.support.hotseat import Hotseat
from tests.support.llama import EMBEDDINGS, SERVER, model_file, present

from hotseat.activity.usage_store import DAY_S, Place, UsageStore, Used
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from playwright.sync_api import Browser, Page

    from hotseat.fleet.records import HostRecord

FOLDER = REPOSITORY / "docs/screenshots"
GIB = 1 << 30
SCHEMES = ("light", "dark")
TRAFFIC_S = 45.0
"""The time that the timeline shows."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hotseat-") as name:
        os.chdir(name)  # so that pages show `-m qwen3-14b.gguf` without this machine's path
        stage(Path(name))
        one_host(Path(name))
        three_hosts(Path(name))
        many_hosts(Path(name))


def one_host(folder: Path) -> None:
    fill_usage(folder / "state/hotseat/usage.sqlite3")
    with Hotseat(CONFIG, folder) as hotseat, open_browser() as browser, ThreadPoolExecutor() as pool:
        over = threading.Event()
        for client in clients(hotseat, over):
            pool.submit(client)
        try:
            over.wait(TRAFFIC_S)
            for scheme in SCHEMES:
                photograph(browser, hotseat.url, scheme, PAGES)
        finally:
            over.set()


def three_hosts(folder: Path) -> None:
    """A fleet, because a host outside a fleet has no fleet page."""
    models, devices = MODELS_OF_FLEET, CONFIG["devices"]
    with fleet_of(folder, "ada", "bob", "cleo", models=models, nats=1, devices=devices) as hosts:
        for host, name in (("ada", "qwen3-14b"), ("bob", "gemma-3-12b"), ("bob", "nomic-embed")):
            hosts[host].load(name)
        hosts["ada"].call("PUT", "/hotseat/fleet/hosts/cleo/cordon")
        with open_browser() as browser:  # not before: its event loop would conflict with theirs
            for scheme in SCHEMES:
                photograph(browser, hosts["ada"].url, scheme, ("fleet",))


def many_hosts(folder: Path) -> None:
    """A fleet of 500 hosts, all but one of which are records."""
    models = {"qwen3-14b": MODELS_OF_FLEET["qwen3-14b"]}
    with among_records(folder / "many", "gpu000", records_of_fleet, models, devices=CONFIG["devices"]) as host:
        host.load("qwen3-14b")
        for order, names in ORDERS.items():
            for name in names:
                host.call("PUT", f"/hotseat/fleet/hosts/{name}/{order}")
        with open_browser() as browser:
            for scheme in SCHEMES:
                photograph(browser, host.url, scheme, ("fleet",), suffix="-500")


def records_of_fleet(digest: str) -> list[HostRecord]:
    def record(number: int) -> HostRecord:
        models = [NAMES[(number * 3 + place * 7) % len(NAMES)] for place in range(10)]
        return host_record(number, "9f8e7d6c" if number in (11, 230) else digest, models)

    return [record(number) for number in range(1, 500)]


ORDERS = {"cordon": ("gpu005", "gpu006", "gpu140"), "drain": ("gpu003", "gpu040")}
NAMES = (
    "qwen3-14b", "qwen3-30b-a3b", "qwen2.5-coder-32b", "gemma-3-12b", "gemma-3-27b", "llama-3.3-70b", "phi-4",
    "mistral-small", "devstral-small", "gpt-oss-20b", "gpt-oss-120b", "glm-4.5-air", "nomic-embed", "bge-m3",
)  # fmt: skip


# Models


def stage(folder: Path) -> None:
    """Model files under their new names, and a llama-server that loads slowly."""
    for name, weights in WEIGHTS.items():
        (folder / f"{name}.gguf").symlink_to(model_file(weights))
    server = folder / "llama-server"
    server.write_text(f'#!/bin/sh\nsleep "$DELAY"\nexec {shlex.quote(str(present(SERVER)))} "$@"\n')
    server.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


WEIGHTS = {"qwen3-14b": "alpha", "gemma-3-12b": "beta", "nomic-embed": "embed"}


def model(file: str, gib: int, delay_s: int, options: str = "", **settings: object) -> dict[str, Any]:
    cmd = f"llama-server -m {file}.gguf --port ${{PORT}} -c 8192 -t 1 -tb 1 {options}".rstrip()
    return {"cmd": cmd, "memory": gib * GIB, "env": [f"DELAY={delay_s}"], **settings}


CONFIG: dict[str, Any] = {
    "unloadTimeout": 2,
    "scheduler": {"patience": 1},  # short turns, so that a minute holds several
    "devices": {"gpu0": {"memory": 24 * GIB, "reserve": GIB}},
    "models": {
        "qwen3-14b": model("qwen3-14b", 14, 4, name="Qwen3 14B", aliases=["gpt-4o"], ttl=300),
        "gemma-3-12b": model("gemma-3-12b", 12, 3, name="Gemma 3 12B"),
        "nomic-embed": model("nomic-embed", 2, 0, EMBEDDINGS, pinned=True),
        "mistral-small": model("mistral-small", 16, 0),
    },
}

MODELS_OF_FLEET = {name: each for name, each in CONFIG["models"].items() if name != "mistral-small"}


# Traffic


def fill_usage(file: Path) -> None:
    """Of the weeks before: fewer tokens on Sundays, and none on Saturdays."""
    chance, today = random.Random(4), int(time.time()) // DAY_S
    weights = {"qwen3-14b": 4_000_000, "gemma-3-12b": 1_500_000, "nomic-embed": 900_000}
    days = [day for day in range(today - 60, today) if day % 7 != 2]

    def used(day: int, most: int) -> Used:
        prompt = int(most * (0.4 + 0.6 * chance.random()) / (4 if day % 7 == 3 else 1))
        return Used(prompt // 900, 0, prompt, prompt // 2, prompt // 9)

    UsageStore(file).add(
        {Place(day, ModelName(model), ""): used(day, most) for day in days for model, most in weights.items()}
    )


def clients(hotseat: Hotseat, over: threading.Event) -> list[Callable[[], None]]:
    def again_and_again(ask: Callable[[], object], pause_s: float, after_s: float) -> Callable[[], None]:
        def go_on() -> None:
            over.wait(after_s)
            while not over.is_set():
                with suppress(OSError):  # on a busy machine a turn may take longer than a client's timeout
                    ask()
                over.wait(pause_s)

        return go_on

    embed = {"model": "nomic-embed", "input": "a sentence"}
    return [
        lambda: fail_a_request(hotseat),
        again_and_again(lambda: hotseat.chat("qwen3-14b", 900), 0.7, 0.5),
        again_and_again(lambda: hotseat.chat("qwen3-14b", 1800), 0.0, 2.0),
        again_and_again(lambda: hotseat.chat("gemma-3-12b", 1200), 5.0, 8.0),
        again_and_again(lambda: hotseat.chat("gemma-3-12b", 500), 3.0, 9.0),
        again_and_again(lambda: hotseat.call("POST", "/v1/embeddings", embed), 1.5, 0.0),
    ]


def fail_a_request(hotseat: Hotseat) -> None:
    hotseat.chat("mistral-small")


# Screenshots


def photograph(browser: Browser, url: str, scheme: str, pages: Iterable[str], suffix: str = "") -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1080, "height": 690}, reduced_motion="reduce")  # type: ignore[arg-type]  # one of its literals
    visit = Visit(context.new_page(), url)
    for name in pages:
        page = visit.go(name)
        PREPARED.get(name, settle)(page)
        page.screenshot(path=FOLDER / f"{name}{suffix}-{scheme}.png")
    context.close()


def settle(page: Page) -> None:
    """Wait until plots are drawn and figures have arrived."""
    page.wait_for_timeout(1500)


def while_somebody_loads(page: Page) -> None:
    """From the beginning of a load, so that it lasts until the page has settled."""
    loading = page.locator("[data-phase=loading]")
    expect(loading).to_have_count(0, timeout=60_000)
    loading.first.wait_for(timeout=60_000)
    settle(page)


def while_somebody_waits(page: Page) -> None:
    page.get_by_role("button", name="Cancel").first.wait_for(timeout=60_000)
    settle(page)


def zoomed(page: Page) -> None:
    page.get_by_role("button", name="1 min", exact=True).click()
    settle(page)


def talking(page: Page) -> None:
    page.get_by_role("combobox", name="Model").select_option("qwen3-14b")
    page.get_by_role("combobox", name="Compare with").select_option("gemma-3-12b")
    page.get_by_label("Max tokens").fill("60")
    page.get_by_label("Your message").fill("What is a hot seat?")
    page.get_by_label("Your message").press("Enter")
    page.locator(".speed").filter(has_text="tokens/s").nth(1).wait_for(timeout=60_000)
    settle(page)


PREPARED: dict[str, Callable[[Page], None]] = {
    "models": while_somebody_loads,
    "queue": while_somebody_waits,
    "timeline": zoomed,
    "playground": talking,
}

if __name__ == "__main__":
    main()
