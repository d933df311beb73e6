"""Matches projectors and drafts with the models in the same folder that they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.model_files.found import Found, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFERRED = ("F16", "BF16", "Q8_0", "F32")
"""Projectors often come in several formats; the first of these is small enough and loses nothing."""


def paired(found: Sequence[Found]) -> list[Found]:
    """The models that can be used by themselves, each with its projector and draft."""
    projectors = [each for each in found if each.role is Role.PROJECTOR]
    drafts = [each for each in found if each.role is Role.DRAFT]
    models = [each for each in found if each.role not in (Role.PROJECTOR, Role.DRAFT)]
    return [_with_helpers(model, projectors, drafts) for model in models]


def _with_helpers(model: Found, projectors: Sequence[Found], drafts: Sequence[Found]) -> Found:
    if model.role is not Role.CHAT:
        return model
    projector = min((each for each in projectors if _fits(each, model)), key=_preference, default=None)
    draft = next((each for each in drafts if _drafts_for(each, model)), None)
    return replace(
        model,
        projector=projector.path if projector else model.projector,
        draft=draft.path if draft else None,
    )


def _fits(projector: Found, model: Found) -> bool:
    """In the same folder, and of the same width if it is known."""
    return projector.path.parent == model.path.parent and projector.width in (0, model.width)


def _drafts_for(draft: Found, model: Found) -> bool:
    """A draft needs its model's vocabulary, and helps only if it is much smaller."""
    is_beside = draft.path.parent == model.path.parent
    return is_beside and draft.vocabulary == model.vocabulary and draft.size * 2 < model.size


def _preference(projector: Found) -> tuple[int, int]:
    known = projector.quant in PREFERRED
    return PREFERRED.index(projector.quant) if known else len(PREFERRED), projector.size
