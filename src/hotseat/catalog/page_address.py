"""The model whose server has its pages at `LABEL.localhost`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import ModelSpec
from hotseat.errors import UnknownModel, did_you_mean

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog


def model_at(label: str, catalog: Catalog) -> ModelSpec:
    """Raises UnknownModel. A page belongs to one server, so a profile may hide it but not put another in its place."""
    labels = catalog.labels.models
    if label not in labels:
        raise UnknownModel(
            f"no model has its pages at {label}.localhost.{did_you_mean(label, labels)} If this is a name of this "
            "host, add it to allowedHosts in the configuration."
        )
    named_model = catalog.follow(labels[label])
    if isinstance(named_model, ModelSpec) and named_model.name == labels[label]:
        return named_model
    raise UnknownModel(f'model "{labels[label]}" is replaced by the active profile "{catalog.active_profile}".')
