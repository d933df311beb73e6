"""The program, the environment and the GPUs of a server."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from hotseat.catalog.spec import with_gpus
from hotseat.model_servers.visible_gpus import limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import DeviceName, Place
    from hotseat.model_servers.visible_gpus import CardName

log = logging.getLogger(__name__)


class LaunchEnvironment:
    """hotseat's environment, as servers get it."""

    def __init__(
        self,
        ours: Mapping[str, str],
        withheld: Collection[str],
        card_names: Callable[[], Mapping[DeviceName, CardName]],
        makes_keys: Callable[[], bool],
    ) -> None:
        """`card_names` returns what CUDA and ROCm call each GPU; `makes_keys`, whether a server gets a key."""
        self._ours, self._card_names, self.makes_keys = ours, card_names, makes_keys
        self.withheld = withheld
        """Variables that servers do not get from now on."""

    def on_gpus(self, spec: ModelSpec, gpus: tuple[Place, ...]) -> tuple[ModelSpec, dict[str, str]]:
        """The spec with its cards filled in, and an environment with only these cards in it."""
        environ = {name: value for name, value in self._ours.items() if name not in self.withheld}
        if not gpus:
            return spec, environ
        names = self._card_names()
        known = {place.device: names.get(place.device) for place in gpus}
        unnamed = [device for device, card in known.items() if card is None]
        if unnamed:
            log.warning("server is not limited to its GPUs model=%s unknown=%s", spec.name, ",".join(unnamed))
        else:
            chosen = [card for card in known.values() if card]
            environ = limited(environ, chosen, spec.recipe, names.values())
        filled = ",".join(card.name if card else device for device, card in known.items())
        return replace(spec, recipe=with_gpus(spec.recipe, filled)), environ


def environment(ours: Mapping[str, str], theirs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """hotseat's variables, overridden by the model's."""
    # Number devices like `nvidia-smi`, or gpu0 would be another card than in the configuration.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **ours, **dict(theirs)}


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The path of a program; FileNotFoundError or PermissionError with a message for the operator."""
    if found := shutil.which(name, path=env.get("PATH", os.defpath)):
        return found
    if os.sep not in name:
        raise FileNotFoundError(f'no program named "{name}" on PATH')
    if not os.path.exists(name):
        raise FileNotFoundError(f'the file "{name}" does not exist')
    raise PermissionError(f'"{name}" is not executable: run chmod +x')
