"""GET /metrics/upstreams: the metrics pages of all ready model servers as one, each sample with its model.

Asking a server for its page is no request to a model: it starts and wakes none, takes no slot and delays no ttl.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotseat.telemetry.metric_names import UPSTREAM_UP
from hotseat.telemetry.prometheus_text import Family, NotPrometheusText, Sample, escaped, families_of, merged, printed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hotseat.identifiers import LaunchId, ModelName
    from hotseat.scheduling.view import View

MODEL = "model"
OWN = "hotseat_"
"""How the names of hotseat's own metrics begin; no server may print one."""


class UpstreamPage:
    def __init__(self, view: Callable[[], View], ask: Callable[[LaunchId], Awaitable[str | None]]) -> None:
        """`ask` returns the page of a server; None: it has none. It has a deadline and never raises."""
        self._view, self._ask = view, ask
        self._rendering = asyncio.Lock()
        self._rendered = 0
        self._page = b""

    async def render(self) -> bytes:
        """One at a time, since a large page takes a second of processor time: who waits for it gets the same page."""
        before = self._rendered
        async with self._rendering:
            if self._rendered == before:
                self._page = await self._render()
                self._rendered += 1
            return self._page

    async def _render(self) -> bytes:
        servers = {model.name: model.launch for model in self._view().running() if model.launch is not None}
        pages = await asyncio.gather(*map(self._ask, servers.values()))
        by_model = dict(zip(servers, pages, strict=True))
        return await asyncio.to_thread(page_of, by_model)  # large pages would block the event loop


def page_of(by_model: Mapping[ModelName, str | None]) -> bytes:
    """PURE: of the pages of all servers; None: a server has none."""
    read = {model: _read(page) for model, page in by_model.items()}
    usable = {model: families for model, families in read.items() if families is not None}
    samples = [Sample(UPSTREAM_UP.name, ((MODEL, escaped(model)),), str(int(model in usable))) for model in by_model]
    own = Family(UPSTREAM_UP.kind.value, UPSTREAM_UP.meaning, samples)
    return printed({UPSTREAM_UP.name: own, **merged(usable.items(), MODEL)}).encode()


def _read(page: str | None) -> dict[str, Family] | None:
    """Without what only hotseat may print; None: it is no page of metrics."""
    if page is None:
        return None
    try:
        families = families_of(page)
    except NotPrometheusText:
        return None
    return {name: family for name, family in families.items() if not _is_own(name, family)}


def _is_own(name: str, family: Family) -> bool:
    """A histogram `hotseat` would print `hotseat_sum`."""
    return any(each.startswith(OWN) for each in (name, *(sample.name for sample in family.samples)))
