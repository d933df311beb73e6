"""Which models of this host lack a file, so that no host chooses it to load them.

The disk may be slow or gone: it is read in a thread, and requests use the last result.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from hotseat.estimates.files import folders_in
from hotseat.model_files.of_command import may_tell_files, missing_file
from hotseat.tasks import forever
from hotseat.threads import in_thread, within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.identifiers import ModelName, Seconds

LOOK_S: Seconds = 10.0
"""An operator who copied a missing file waits that long at most until the model can be placed."""
FIRST_S: Seconds = 2.0
"""A host whose disk takes longer joins without knowing."""
DISK_S: Seconds = 5.0
"""For the models of one folder; those of other folders are looked for afterwards."""
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

    async def look_first(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                await self._look()

    async def keep_looking(self) -> None:
        await forever(self._look_later, "look for the files of models")

    async def _look_later(self) -> None:
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
        found = await in_thread("look for files", missing_files, recipes) if recipes else {}
        if found != self.by_model:
            self.by_model = found
            self._changed()


def missing_files(recipes: Mapping[ModelName, LaunchRecipe]) -> dict[ModelName, str]:
    """Nothing is known of models whose disk does not answer in time."""
    places: dict[frozenset[str], dict[ModelName, LaunchRecipe]] = {}
    for model, recipe in recipes.items():
        places.setdefault(folders_in(recipe.argv), {})[model] = recipe
    looks = (within(DISK_S, next(iter(there)), place, partial(_missing, there)) for place, there in places.items())
    return dict(islice((each for found in looks for each in found or ()), MOST))


def _missing(recipes: Mapping[ModelName, LaunchRecipe]) -> list[tuple[ModelName, str]]:
    found = ((model, missing_file(recipe)) for model, recipe in recipes.items())
    return [(model, file) for model, file in found if file]
