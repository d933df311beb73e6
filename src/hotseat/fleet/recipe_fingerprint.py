"""PURE: a fingerprint of how a model is started, so that hosts notice that their commands differ.

Other hosts get no command, because it may contain secrets. Values from the environment do not count: they may differ
from host to host, and a short fingerprint of a password could be guessed.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from hotseat.catalog.redaction import without

if TYPE_CHECKING:
    from hotseat.catalog.spec import LaunchRecipe

DIGITS = 8


def recipe_fingerprint(recipe: LaunchRecipe) -> str:
    """Without `preferred_port`, which also does not count when recipes are compared."""
    said = json.dumps([recipe.argv, recipe.proxy, recipe.stop, sorted(recipe.env), recipe.check_endpoint])
    shown = without(said, [json.dumps(secret)[1:-1] for secret in recipe.secrets])
    return hashlib.sha256(shown.encode()).hexdigest()[:DIGITS]
