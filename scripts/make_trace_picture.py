"""`just trace-picture`: a request that swapped, as Phoenix shows its trace.

Phoenix is a large program, so this is no test; it ends with an error unless Phoenix has the trace that it should have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect
from scripts.make_screenshots import FOLDER, model, stage
from tests.support.browser import PATIENCE_MS, open_browser
from tests.support.hotseat import Hotseat
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

MODELS = {"qwen3-14b": model("qwen3-14b", 1, 1), "gemma-3-12b": model("gemma-3-12b", 1, 2)}
FIRST, SECOND = MODELS
NAMES = {f"chat {SECOND}", "queue", "swap", "drain", "stop", "start", "forward"}
PROJECT = "default"
DRAIN_S = 1.0
"""So that it can be seen."""
START_S = 300.0


def main() -> None:
    phoenix = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="hotseat-") as name:
        os.chdir(name)
        stage(Path(name))
        with running(phoenix, Path(name)) as url:
            with Hotseat({"models": MODELS}, Path(name), environ={"OTEL_EXPORTER_OTLP_ENDPOINT": url}) as hotseat:
                swap(hotseat)
            trace = eventually(lambda: trace_in(url))
            with open_browser() as browser:
                photograph(browser, f"{url}/projects/{project(url)}/traces/{trace}")


@contextmanager
def running(phoenix: Path, folder: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {"HOST": "127.0.0.1", "PORT": str(port), "GRPC_PORT": str(free_port()), "TELEMETRY_ENABLED": "false"}
    environ = {f"PHOENIX_{name}": value for name, value in settings.items()}
    environ = {**os.environ, **environ, "PHOENIX_WORKING_DIR": str(folder)}
    process = subprocess.Popen([phoenix, "serve"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: answers(url), within=START_S)
        yield url
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    try:
        return bool(project(url))
    except OSError:
        return False


def swap(hotseat: Hotseat) -> None:
    """The first model is drained, because its turn ends before its stream does."""
    stream = hotseat.stream(FIRST, max_tokens=8000).until_it_speaks()
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(hotseat.chat, SECOND, 40)
        eventually(lambda: is_draining(hotseat))
        time.sleep(DRAIN_S)
        stream.leave()
        assert answer.result().status == 200


def is_draining(hotseat: Hotseat) -> bool:
    models = hotseat.call("GET", "/hotseat/models").json()["models"]
    return any(each["model"] == FIRST and each["phase"] == "draining" for each in models)


# Phoenix


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def project(url: str) -> str:
    return next(str(each["id"]) for each in asked(f"{url}/v1/projects") if each["name"] == PROJECT)


def trace_in(url: str) -> str:
    """The trace of the request that swapped, if all of its spans are there; else an empty text."""
    spans = asked(f"{url}/v1/projects/{PROJECT}/spans?limit=100")
    found = [span["context"]["trace_id"] for span in spans if span["name"] == f"chat {SECOND}"]
    names = {span["name"] for span in spans if [span["context"]["trace_id"]] == found}
    return str(found[0]) if names == NAMES else ""


def photograph(browser: Browser, url: str) -> None:
    """The tree of spans with their times, and the reasons for the wait."""
    page = browser.new_page(viewport={"width": 1600, "height": 560})
    page.goto(url)
    trace = page.get_by_role("dialog")
    trace.get_by_role("button", name="queue").click(timeout=PATIENCE_MS)
    trace.get_by_role("tab", name="Attributes").click(timeout=PATIENCE_MS)
    expect(trace.get_by_text("hotseat.reason", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle")
    trace.screenshot(path=FOLDER / "trace.png")


if __name__ == "__main__":
    main()
