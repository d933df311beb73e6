"""Every path of the management application."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from starlette.routing import Mount, Route

from hotseat import dashboard
from hotseat.api.app import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.routing import BaseRoute

    from hotseat.api.deps import ApiDeps

GAP = re.compile(r"\{\w+(?::path)?\}")


def own_routes() -> list[str]:
    """Every path, with a model's name for each parameter."""
    return list(dict.fromkeys(path for _, path in methods_and_paths()))


def methods_and_paths() -> list[tuple[str, str]]:
    """The same, with each method."""
    app = build(cast("ApiDeps", None))
    dashboard.add_to(app)
    return [(method, GAP.sub("alpha", path)) for method, path in routes_of(app.routes)]


def routes_of(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, Mount):
            yield "GET", f"{route.path}/x"
        elif isinstance(route, Route):
            yield from ((method, route.path) for method in sorted(route.methods or ()))
        else:  # FastAPI keeps an included router as it is
            yield from routes_of(cast(Any, route).original_router.routes)
