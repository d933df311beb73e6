"""Finds the model files that commands name and that do not exist."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.config.specs import SHELLS
from hotseat.estimates.command import container_run
from hotseat.estimates.llama_flags import VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.config.load import Loaded

MODEL_FILE = ".gguf"
FILE_OPTIONS = frozenset(VALUES["model"] + VALUES["projector"] + VALUES["adapters"] + VALUES["draft"])
"""A relative name anywhere else may be an alias, or a file of a hub."""


def missing_files(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Each model and path, as `hotseat serve` in this folder would start it."""
    for spec in loaded.catalog.models.values():
        for path in files_named_in(spec.recipe.argv):
            if not os.path.exists(path):
                yield spec.name, path


def files_named_in(argv: Sequence[str]) -> list[str]:
    """Of files within containers, those in mounted folders; none if a shell or another host looks for them."""
    if os.path.basename(argv[0]) in SHELLS:
        return []
    is_fetched = not set(VALUES["fetched"]).isdisjoint(argv)
    words = [
        path
        for option, word in pairwise(argv)
        if not (is_fetched and option in VALUES["model"])
        for path in (word.split(",") if option in VALUES["adapters"] else [word])
        if path.endswith(MODEL_FILE) and (os.path.isabs(path) or (option in FILE_OPTIONS and is_direct(argv)))
    ]
    run = container_run(tuple(argv))
    return [path for word in words if (path := run.outside(word)) != word and os.path.isabs(path)] if run else words


def is_direct(argv: Sequence[str]) -> bool:
    """Does the program start in this folder? `docker exec` and `env --chdir` start another one elsewhere."""
    return argv[1].startswith("-") and os.path.basename(argv[0]) != "env"
