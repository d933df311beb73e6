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
    app = build(cast("ApiDeps", None))
    dashboard.add_to(app)
    return [GAP.sub("alpha", path) for path in paths_of(app.routes)]


def paths_of(routes: Iterable[BaseRoute]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, Mount):
            yield f"{route.path}/x"
        elif isinstance(route, Route):
            yield route.path
        else:  # FastAPI keeps an included router as it is
            yield from paths_of(cast(Any, route).original_router.routes)
