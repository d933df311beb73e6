"""What is known of a server when it starts, as far as its saved conversations depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.model_servers.adoption import USUAL_WEIGHT
from hotseat.model_servers.api_key import key_of
from hotseat.model_servers.conversations.fingerprint import basis_of
from hotseat.model_servers.load_progress import weight_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.identifiers import Bytes, ModelName


@dataclass(frozen=True, slots=True)
class ServerStart:
    model: ModelName
    recipe: LaunchRecipe
    env: Mapping[str, str]
    basis: str
    weight: Bytes

    @staticmethod
    def of(spec: ModelSpec, env: Mapping[str, str]) -> ServerStart:
        weight = weight_of(spec.recipe.argv) or USUAL_WEIGHT
        return ServerStart(spec.name, spec.recipe, env, basis_of(spec.recipe, env), weight)

    @property
    def key(self) -> str:
        return key_of(self.recipe.argv, self.env)

    def is_unchanged(self) -> bool:
        """Whether the files are still those with which it was started."""
        return basis_of(self.recipe, self.env) == self.basis
