"""Models and requests as llama-swap describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.api.llama_swap_schemas import UNKNOWN, SwapActivity, SwapModel, SwapState, SwapTokens
from hotseat.api.log_text import moment
from hotseat.api.routes.requests import path_of
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.activity.recent import Finished
    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import ModelName

STATES: dict[Phase, SwapState] = {
    Phase.LOADING: "starting",
    Phase.READY: "ready",
    Phase.DRAINING: "stopping",
    Phase.UNLOADING: "stopping",
}
"""All others are stopped."""


def swap_states(deps: ApiDeps) -> dict[ModelName, SwapState]:
    """Of the models that are not stopped."""
    seen = deps.dispatcher.views.current().models
    return {model.name: STATES[model.phase] for model in seen if model.phase in STATES}


def swap_models(catalog: Catalog, states: Mapping[ModelName, SwapState]) -> Iterator[SwapModel]:
    for spec in catalog.models.values():
        yield SwapModel(
            id=spec.name,
            name=spec.title,
            description=spec.description,
            state=states.get(spec.name, "stopped"),
            unlisted=spec.unlisted,
            aliases=list(spec.aliases),
        )
    remotes = {remote.name: remote for remote in catalog.remotes.values()}
    for name, remote in remotes.items():
        yield SwapModel(id=name, name="", description="", state="ready", unlisted=False, peerID=remote.peer, aliases=[])


def swap_activity(request: Finished) -> SwapActivity:
    tokens, per_second = request.tokens, request.tokens_per_s
    return SwapActivity(
        id=request.n,
        timestamp=moment(request.at, None),
        src=request.client,
        model=request.model,
        req_path=path_of(request.target),
        resp_status_code=request.status,
        tokens=SwapTokens(
            cache_tokens=UNKNOWN if tokens is None or tokens.cached is None else tokens.cached,
            input_tokens=(tokens and tokens.prompt) or 0,
            output_tokens=(tokens and tokens.completion) or 0,
            tokens_per_second=UNKNOWN if per_second is None else round(per_second, 2),
        ),
        duration_ms=round(request.seconds * 1000),
    )
