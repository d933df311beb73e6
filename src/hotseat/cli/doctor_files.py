"""Finds the model files that commands name and that do not exist."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.config.specs import SHELLS
from hotseat.estimates.container_run import container_run
from hotseat.estimates.llama_flags import VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.config.load import Loaded

MODEL_FILE = ".gguf"
FILE_OPTIONS = frozenset(VALUES["model"] + VALUES["projector"] + VALUES["adapters"] + VALUES["draft"])
"""A relative name anywhere else may be an alias, or a file of a hub."""
FETCHING = frozenset(VALUES["fetched"])


def missing_files(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Each model and path, as `hotseat serve` in this folder would start it."""
    for spec in loaded.catalog.models.values():
        for path in files_named_in(spec.recipe.argv):
            if not os.path.exists(path):
                yield spec.name, path


def files_named_in(argv: Sequence[str]) -> list[str]:
    """Of files within containers, those in mounted folders; none if a shell, another host or a download has them."""
    if FETCHING.intersection(argv) or any(os.path.basename(word) in SHELLS for word in argv):
        return []
    words = [
        word
        for before, word in pairwise(argv)
        if word.endswith(MODEL_FILE) and (before in FILE_OPTIONS or os.path.isabs(word))
    ]
    run = container_run(tuple(argv))
    return [path for word in words if (path := run.outside(word)) != word and os.path.isabs(path)] if run else words
