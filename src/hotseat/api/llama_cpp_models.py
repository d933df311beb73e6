"""Models as llama.cpp's router describes them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.api.llama_cpp_schemas import RouterModalities, RouterModel, RouterState, RouterStatus
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.view import ModelView

FAILED = 1
"""The exit code of a server that failed; of one that was stopped it is 0."""
CONTEXT = ("-c", "--ctx-size")


def router_state(seen: ModelView | None) -> RouterState:
    """The router starts a model as soon as somebody wants it, so one that is waited for counts as loading.

    None: a cold model that no request waits for.
    """
    match seen and seen.phase:
        case Phase.READY:
            return "loaded"
        case Phase.LOADING:
            return "loading"
        case Phase.ASLEEP:
            return "sleeping"
        case _:
            return "loading" if seen and seen.waiting else "unloaded"


def router_model(deps: ApiDeps, seen: ModelView | None, spec: ModelSpec) -> RouterModel:
    context = deps.context(spec.name) or spec.capabilities.context or None
    return RouterModel(
        id=spec.name,
        aliases=list(spec.aliases),
        created=int(deps.started_at),
        status=router_status(seen, spec),
        architecture=RouterModalities(
            input_modalities=list(spec.capabilities.takes) or ["text"],
            output_modalities=list(spec.capabilities.gives) or ["text"],
        ),
        context_length=context,
        meta={"n_ctx": context} if context else None,
    )


def router_status(seen: ModelView | None, spec: ModelSpec) -> RouterStatus:
    args, state = shown_args(spec.recipe.argv), router_state(seen)
    if state == "unloaded" and seen and seen.failures:
        return RouterStatus(value=state, args=args, failed=True, exit_code=FAILED)
    return RouterStatus(value=state, args=args)


def shown_args(argv: Iterable[str]) -> list[str]:
    """Only the context, which clients look for: pages and all keys may read this, the rest has paths and secrets."""
    contexts = [value for name, value in pairwise(argv) if name in CONTEXT and value.isdecimal()]
    return ["--ctx-size", contexts[-1]] if contexts else []
