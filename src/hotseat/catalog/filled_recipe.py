"""PURE: a launch recipe with its port and its cards filled in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.catalog.template import GPUS, PID, PORT, address_of, fill_hole

if TYPE_CHECKING:
    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.identifiers import Address


class FilledRecipe(Struct, frozen=True):
    """A launch recipe for one process: only `${PID}` in `stop` is left open."""

    argv: tuple[str, ...]
    address: Address
    env: tuple[tuple[str, str], ...]
    check_endpoint: str | None
    stop: tuple[str, ...] | None

    def stop_argv(self, pid: int) -> tuple[str, ...] | None:
        """The command that stops process `pid`; None: a signal does."""
        return None if self.stop is None else tuple(fill_hole(text, PID, pid) for text in self.stop)


def with_gpus(recipe: LaunchRecipe, names: str) -> LaunchRecipe:
    """A copy with `names` instead of `${GPUS}`."""
    return replace(
        recipe,
        argv=tuple(fill_hole(text, GPUS, names) for text in recipe.argv),
        env=tuple((name, fill_hole(value, GPUS, names)) for name, value in recipe.env),
        stop=recipe.stop and tuple(fill_hole(text, GPUS, names) for text in recipe.stop),
    )


def fill(recipe: LaunchRecipe, port: int) -> FilledRecipe:
    return FilledRecipe(
        argv=tuple(fill_hole(text, PORT, port) for text in recipe.argv),
        address=address_of(fill_hole(recipe.proxy, PORT, port)),
        env=tuple((name, fill_hole(value, PORT, port)) for name, value in recipe.env),
        check_endpoint=recipe.check_endpoint and fill_hole(recipe.check_endpoint, PORT, port),
        stop=recipe.stop and tuple(fill_hole(text, PORT, port) for text in recipe.stop),
    )
