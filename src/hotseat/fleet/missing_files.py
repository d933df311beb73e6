"""Which models of this host lack a file, so that no host chooses it to load them.

The disk may be slow or gone: it is read in a thread, and requests use the last result.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.catalog.redaction import without
from hotseat.model_files.of_command import is_missing, may_tell_files, needed_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.identifiers import ModelName, Seconds

LOOK_S: Seconds = 10.0
"""An operator who copied a missing file waits that long at most until the model can be placed."""
FIRST_S: Seconds = 2.0
"""A host whose disk takes longer joins without knowing."""
MOST = 256
"""Models in a record: where a whole disk is missing, thousands would be more than NATS takes. A load of the others
fails on this host, as it would without this knowledge."""


class MissingFiles:
    def __init__(self, catalog: Callable[[], Catalog], changed: Callable[[], None]) -> None:
        """`changed` is called after a look that found something else than the one before."""
        self.by_model: Mapping[ModelName, str] = {}
        """A missing file of each model that lacks one."""
        self._catalog, self._changed = catalog, changed
        self._soon = asyncio.Event()
        self._known: dict[ModelName, tuple[LaunchRecipe, list[Path]]] = {}
        """The files that each command needs: thousands of commands are not parsed at each look."""

    async def look_first(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                await self._look()

    async def keep_looking(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._soon.wait()
            self._soon.clear()
            await self._look()

    def look_soon(self) -> None:
        """A load has failed, or the configuration has changed."""
        self._soon.set()

    async def _look(self) -> None:
        models = self._catalog().models
        recipes = {name: spec.recipe for name, spec in models.items() if may_tell_files(spec.recipe.argv)}
        found = await asyncio.to_thread(self._missing, recipes) if recipes else {}
        if found != self.by_model:
            self.by_model = found
            self._changed()

    def _missing(self, recipes: Mapping[ModelName, LaunchRecipe]) -> dict[ModelName, str]:
        self._known = {name: self._files(name, recipe) for name, recipe in recipes.items()}
        first = ((model, next(filter(is_missing, files), None)) for model, (_, files) in self._known.items())
        return dict(islice(((model, str(file)) for model, file in first if file), MOST))

    def _files(self, model: ModelName, recipe: LaunchRecipe) -> tuple[LaunchRecipe, list[Path]]:
        known = self._known.get(model)
        if known and known[0] is recipe:
            return known
        files = needed_files(recipe.argv, dict(recipe.env), Path.cwd())
        # Other hosts and their clients get the path, so one that contains a secret is left out.
        return recipe, [file for file in files if without(str(file), recipe.secrets) == str(file)]
