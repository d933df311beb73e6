"""The page with the HTTP API lists every path that hotseat knows, with its role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import pytest
from scripts.make_docs import DOCS
from starlette.routing import Mount, Route

from hotseat import dashboard
from hotseat.api.app import build
from hotseat.relay.routing.other_apis import OTHER_APIS
from hotseat.relay.routing.paths import INFERENCE, ONLY_LISTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.routing import BaseRoute

    from hotseat.api.deps import ApiDeps

INTERNAL = {("GET", "/api"), ("GET", "/idle"), ("GET", "/api/blobs/*")}
"""What `/` says at the address for Ollama's clients and while no model runs, and the response to HEAD of a blob."""
GAP = re.compile(r"\{\w+(?::path)?\}")


def listed() -> dict[tuple[str, str], str]:
    """The role of each method and path on the page; a `*` stands for any parameter."""
    rows = re.findall(r"^\| `([A-Z]+) (\S+)` \| (\w+) \|", (DOCS / "reference/http-api.md").read_text(), re.MULTILINE)
    return {(method, GAP.sub("*", path)): role for method, path, role in rows}


def routes(found: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Of the application and the dashboard."""
    for route in found:
        if isinstance(route, Mount):
            yield "GET", f"{route.path}/*"
        elif isinstance(route, Route):
            yield from ((method, GAP.sub("*", route.path)) for method in (route.methods or set()) - {"HEAD"})
        else:
            yield from routes(route.original_router.routes)  # type: ignore[attr-defined]  # FastAPI's included router


def test_every_route_is_listed() -> None:
    """What the application and the dashboard answer is on the page, except paths that no client can request."""
    app = build(cast("ApiDeps", None))
    dashboard.add_to(app)

    assert set(routes(app.routes)) - set(listed()) == INTERNAL


@pytest.mark.parametrize("program", OTHER_APIS)
def test_every_route_of_another_program_is_listed_with_its_role(program: str) -> None:
    """The page has the rows of the table that the relay uses."""
    rows = {(method.decode(), path.decode()): rule.role for (method, path), rule in OTHER_APIS[program].items()}
    page = listed()

    assert {row: page.get(row) for row in rows} == {row: role.value if role else "none" for row, role in rows.items()}


def test_every_path_for_inference_is_listed() -> None:
    """The page has each path of model servers that the role inference may use."""
    rows = {(method.decode(), path.decode()) for method, path in INFERENCE}

    assert rows - set(listed()) == set()


def test_the_roles_are_those_of_the_relay() -> None:
    """For each row that hotseat answers itself, the relay requires the role on the page."""
    page = listed()
    rules = {row: ONLY_LISTED.of_ours(row[0].encode(), row[1].replace("*", "x").encode()) for row in page}
    ours = {row: rule for row, rule in rules.items() if rule is not None}

    assert len(ours) > 50
    assert {row: page[row] for row in ours} == {
        row: rule.role.value if rule.role else "none" for row, rule in ours.items()
    }
