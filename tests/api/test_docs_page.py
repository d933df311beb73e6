"""The documentation page, its files and the description behind it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from hotseat.api.routes.docs_page import ASSETS

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_the_page_needs_nothing_from_elsewhere(rig: Management) -> None:
    """hotseat serves all five files that the page fetches, and the page has no inline script."""
    page = await rig.get("/swagger")
    fetched = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    answers = {path: (await rig.get(path)).status_code for path in fetched}

    assert page.headers["content-type"].startswith("text/html")
    assert len(answers) == 5
    assert set(answers.values()) == {200}
    assert "<script>" not in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    assert "default-src 'self'" in page.headers["content-security-policy"]


async def test_files_may_be_kept_by_browsers(rig: Management) -> None:
    """Browsers may cache assets and revalidate them; files outside the folder are 404."""
    first = await rig.get("/hotseat/assets/swagger-ui.css")
    again = await rig.get("/hotseat/assets/swagger-ui.css", headers={"If-None-Match": first.headers["etag"]})
    outside = await rig.get("/hotseat/assets/%2e%2e/app.py")

    assert "no-store" not in first.headers.get("cache-control", "")
    assert again.status_code == 304
    assert outside.status_code == 404


def test_the_vendored_files_are_the_ones_that_were_reviewed() -> None:
    """Every third-party file is listed in SHA256SUMS and has the listed checksum."""
    ours = {"NOTICE", "SHA256SUMS", "swagger.html", "swagger-start.js"}
    sums = [line.split("  ") for line in (ASSETS / "SHA256SUMS").read_text().splitlines()]
    listed = {name: checksum for checksum, name in sums}
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in ASSETS.iterdir() if file.name not in ours
    }

    assert found == listed


async def test_the_description_has_every_endpoint_of_the_contract(rig: Management) -> None:
    """The OpenAPI document includes the inference paths, which the relay serves."""
    document = (await rig.get("/hotseat/openapi.json")).json()
    described = {(method, path) for path, methods in document["paths"].items() for method in methods}

    assert document["openapi"].startswith("3.1")
    assert described >= {
        ("get", "/v1/models"),
        ("post", "/v1/chat/completions"),
        ("post", "/v1/completions"),
        ("post", "/v1/embeddings"),
        ("get", "/health"),
        ("get", "/running"),
        ("delete", "/upstream/{model}"),
        ("get", "/upstream/{model}/load"),
        ("get", "/swagger"),
        ("get", "/metrics"),
    }


async def test_the_description_tells_the_answers_that_really_come(rig: Management) -> None:
    """The documented statuses and fields are hotseat's own, without the framework's validation error."""
    document = (await rig.get("/hotseat/openapi.json")).json()
    chat = document["paths"]["/v1/chat/completions"]["post"]
    fields = document["components"]["schemas"]["ChatRequest"]["properties"]

    assert set(chat["responses"]) == {"200", "400", "404", "429", "500", "502", "503"}
    assert set(fields) == {"model", "messages", "temperature", "max_tokens", "stream"}
    assert set(document["paths"]["/upstream/{model}"]["delete"]["responses"]) == {"200", "400", "404", "409"}
    assert "HTTPValidationError" not in str(document)
