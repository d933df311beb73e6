"""PURE: builds the record that a host publishes, from its scheduler and configuration."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from hotseat.catalog.spec import NOTHING, on_cards
from hotseat.fleet.recipe_fingerprint import recipe_fingerprint
from hotseat.fleet.records import CatalogRecord, DeviceBudget, HostRecord, Offer, Residence
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, DeviceName, HostName, ModelName, Place, Seconds
    from hotseat.scheduling.view import ModelView, View

DIGITS = 32


@dataclass(frozen=True, slots=True)
class Identity:
    """The part of a host that does not change between start and exit."""

    name: HostName
    address: str
    boot: str
    version: str = ""
    token_hash: str = ""


def host_record(
    identity: Identity,
    labels: Mapping[str, str],
    view: View,
    catalog: Catalog,
    digest: str,
    *,
    is_leaving: bool,
    missing_files: Mapping[ModelName, str] = NOTHING,
    released: Iterable[ModelName] = (),
    unreachable: Mapping[HostName, str] = NOTHING,
) -> HostRecord:
    """The current record; `digest` is that of `catalog_record(catalog)`."""
    waits = _oldest_waits(view)
    return HostRecord(
        name=identity.name,
        address=identity.address,
        boot=identity.boot,
        catalog=digest,
        labels=dict(labels),
        devices={
            device.place.device: DeviceBudget(device.budget, max(0, device.available - device.reserved))
            for device in view.devices
        },
        residents=[
            _residence(model, catalog.models.get(model.name), view, waits.get(model.name, 0.0))
            for model in view.models
            # A model with waiting requests has been placed here: no other host need be chosen when its claim ends.
            if _phase(model) is not Phase.COLD or model.waiting
        ],
        is_leaving=is_leaving,
        version=identity.version,
        token_hash=identity.token_hash,
        missing_files=dict(missing_files),
        released=sorted(released),
        unreachable=dict(unreachable),
    )


def routing_summary(record: HostRecord) -> object:
    """The part of a record on which other hosts act at once, for comparison: models, memory, and whether we leave."""
    residents = [(each.model, each.phase, each.memory, each.pinned) for each in record.residents]
    host = record.catalog, record.labels, record.is_leaving, record.devices, record.missing_files, record.released
    return *host, residents


def _oldest_waits(view: View) -> dict[ModelName, Seconds]:
    """The queue has the oldest first."""
    return {ticket.model: view.now - ticket.since for ticket in reversed(view.queue)}


def _residence(model: ModelView, spec: ModelSpec | None, view: View, oldest_wait_s: Seconds) -> Residence:
    """`spec` is None for a resident model that a reload removed from the catalog."""
    return Residence(
        model=model.name,
        phase=_phase(model).value,
        memory=_memory(model, {device.place: device.budget for device in view.devices}),
        in_flight=model.in_flight,
        waiting=model.waiting,
        slots=model.slots or 0,
        idle_s=_idle_s(model, view),
        load_s=round(model.load_s or 0.0, 2),
        oldest_wait_s=round(oldest_wait_s, 1),
        pinned=spec.pinned if spec else False,
        phase_s=_phase_s(model, view),
    )


def _memory(model: ModelView, budgets: Mapping[Place, Bytes]) -> dict[DeviceName, Bytes]:
    """On the cards that it has; a model of unknown size takes all of them."""
    if model.footprint is not None:
        return _by_device(on_cards(model.footprint.memory, model.gpus, budgets))
    whole = model.gpus or [*budgets][:1]
    return {place.device: budgets.get(place, 0) for place in whole} if model.phase.takes_memory else {}


def _phase(model: ModelView) -> Phase:
    """A failed model is retried by the next request here; other hosts see it as backing off and try elsewhere first."""
    has_failed = model.phase is Phase.COLD and model.failures and not model.waiting
    return Phase.BACKOFF if has_failed else model.phase


def _phase_s(model: ModelView, view: View) -> Seconds | None:
    """None for a model that never ran, since JSON has no infinity."""
    return max(0.0, round(view.now - model.since, 1)) if isfinite(model.since) else None


def _idle_s(model: ModelView, view: View) -> Seconds:
    """0 for a model that was never used, since JSON has no infinity."""
    return max(0.0, round(view.now - model.last_used, 1)) if isfinite(model.last_used) else 0.0


def catalog_record(catalog: Catalog) -> CatalogRecord:
    """Our own models, without those of peers and without selectors, which each host resolves before placement.

    It contains no measurements, so hosts with the same configuration write the same record.
    """
    return CatalogRecord({name: _offer(spec) for name, spec in sorted(catalog.models.items())})


def digest_of(record: CatalogRecord, fingerprint: bytes = b"") -> str:
    """Equal for equal contents and secret: hosts with different secrets would overwrite what the other signed."""
    return hashlib.sha256(fingerprint + msgspec.json.encode(record, order="sorted")).hexdigest()[:DIGITS]


def _offer(spec: ModelSpec) -> Offer:
    memory = spec.memory if spec.memory is not None else spec.estimated
    return Offer(
        memory=_by_device(memory or {}),
        is_estimate=spec.memory is None,
        gpus=(spec.gpus.count or 0) if spec.gpus else 0,
        # Only of a list: with thousands of models, the names of all cards would make a large record.
        among=[place.device for place in spec.gpus.among] if spec.gpus and spec.gpus.is_list else [],
        labels=dict(spec.host_labels),
        aliases=list(spec.aliases),
        least=spec.replicas.least,
        most=spec.replicas.most,
        recipe=recipe_fingerprint(spec.recipe),
    )


def _by_device(memory: Mapping[Place, Bytes]) -> dict[DeviceName, Bytes]:
    return {place.device: size for place, size in memory.items()}
