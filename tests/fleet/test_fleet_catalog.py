"""The indexes of a fleet's catalogs, in whatever order catalogs and their hosts come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.fleet import fleet_catalog, offer

from hotseat.fleet.catalog import FleetCatalog
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from hotseat.fleet.records import CatalogRecord, Offer

DIGESTS, NAMES = ("d1", "d2", "d3"), ("a", "b", "x", "y")

offers = st.builds(offer, least=st.integers(0, 2), aliases=st.lists(st.sampled_from(NAMES), max_size=2))
catalogs = st.dictionaries(st.sampled_from(NAMES), offers, max_size=3).map(lambda found: fleet_catalog(**found))
steps = st.lists(
    st.tuples(st.sampled_from(("put", "drop", "use", "disuse")), st.sampled_from(DIGESTS), catalogs), max_size=12
)


def shown(catalog: FleetCatalog) -> tuple[Any, ...]:
    """What its users see, where the order counts as a list."""
    by_model = {name: list(catalog.offers(ModelName(name))) for name in NAMES}
    return by_model, {name: catalog.resolve(name) for name in NAMES}, dict(catalog.names()), catalog.kept


def expected(known: dict[str, CatalogRecord], used: set[str]) -> tuple[Any, ...]:
    """The same by a search through all of them: the catalog with the lowest digest decides whose an alias is."""
    counting = [(digest, known[digest].offers) for digest in DIGESTS if digest in used and digest in known]
    by_model: dict[str, list[tuple[str, Offer]]] = {
        name: [(digest, models[ModelName(name)]) for digest, models in counting if name in models] for name in NAMES
    }
    resolved = {name: _resolved(name, counting) for name in NAMES}
    least = {name: max((offer.least for _, offer in found), default=0) for name, found in by_model.items()}
    kept = {name: number for name, number in least.items() if number}
    return by_model, resolved, {name: model for name, model in resolved.items() if model}, kept


def _resolved(name: str, counting: list[tuple[str, dict[ModelName, Offer]]]) -> str | None:
    if any(name in models for _, models in counting):
        return name
    aliased = (model for _, models in counting for model, offer in models.items() if name in offer.aliases)
    return next(aliased, None)


@given(steps)
def test_catalogs_come_and_go_in_any_order(steps: list[tuple[str, str, CatalogRecord]]) -> None:
    """After each step, every model, alias and minimum is what a search through the used catalogs finds."""
    catalog, known, used = FleetCatalog(), dict[str, "CatalogRecord"](), set[str]()
    for action, digest, record in steps:
        if action == "put":
            catalog.put(digest, record)
            known[digest] = record
        elif action == "drop":
            catalog.drop(digest)
            known.pop(digest, None)
        elif action == "use":
            catalog.use(digest)
            used.add(digest)
        else:
            catalog.disuse(digest)
            used.discard(digest)

        assert shown(catalog) == expected(known, used)
