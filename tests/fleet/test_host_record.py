"""The record that a host publishes, made from a view of the scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs
from tests.support.catalogs import GIB, gpu, model, on_any, one_at_a_time, with_budget
from tests.support.scheduler_driver import SchedulerDriver, slots_learned

from hotseat.catalog.named_models import Selector, Strategy
from hotseat.catalog.spec import Footprint, Replicas, Source
from hotseat.fleet.host_record import Identity, catalog_record, digest_of, host_record, routing_summary
from hotseat.fleet.recipe_fingerprint import recipe_fingerprint
from hotseat.fleet.records import CatalogRecord, DeviceBudget, HostRecord, Offer, Residence, decoded, encoded
from hotseat.identifiers import ClientId, DeviceName, HostName, ModelName, TicketId
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.view import DeviceView, ModelView, TicketView, View

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog

ME = Identity(HostName("gpu1"), "http://gpu1:8080", "boot-1", "1.0")
QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
CATALOG = with_budget(model("qwen", gib=8, concurrency_limit=4, pinned=True), model("llama"))


def seen(name: ModelName, phase: Phase, **known: Any) -> ModelView:
    return ModelView(name, phase, 0.0, None, known.pop("in_flight", 0), known.pop("waiting", 0), "", **known)


def described(view: View, catalog: Catalog = CATALOG, *, is_leaving: bool = False) -> HostRecord:
    return host_record(ME, {"zone": "a"}, view, catalog, "digest", is_leaving=is_leaving)


def test_a_resident_is_recorded_with_its_load() -> None:
    """The record has the model's requests, idle time, load time and longest wait."""
    footprint = Footprint({gpu(0): 8 * GIB}, Source.DECLARED)
    qwen = seen(QWEN, Phase.READY, in_flight=2, waiting=1, last_used=90.0, load_s=12.345, footprint=footprint, slots=4)
    line = (waits(1, QWEN, 95.0), waits(2, QWEN, 99.0))

    record = described(View(100.0, (qwen,), line))

    assert record.residents == [
        Residence(
            QWEN,
            "ready",
            {DeviceName("gpu0"): 8 * GIB},
            in_flight=2,
            waiting=1,
            slots=4,
            idle_s=10.0,
            load_s=12.35,
            oldest_wait_s=5.0,
            pinned=True,
            phase_s=100.0,
        )
    ]


def test_slots_that_a_server_reported_are_recorded() -> None:
    """Other hosts choose by them, as by configured ones."""
    driver = SchedulerDriver(CATALOG)
    driver.with_ready("llama", 1)
    driver >> slots_learned("llama", 6)
    [llama] = described(driver.scheduler.view(driver.now)).residents

    assert llama.slots == 6


def test_a_model_that_was_never_used_can_be_recorded() -> None:
    """A model that was never used has an idle time of 0, and the record can be decoded."""
    loading = seen(QWEN, Phase.LOADING, waiting=1, last_used=float("-inf"))

    record = described(View(100.0, (loading,), ()))

    assert decoded(encoded(record), HostRecord) == record
    assert record.residents[0].idle_s == 0.0


def test_missing_files_are_recorded_at_once() -> None:
    """Other hosts act on them; a host that lacks nothing says nothing."""
    nothing = described(View(100.0, (), ()))
    lacking = host_record(
        ME, {"zone": "a"}, View(100.0, (), ()), CATALOG, "digest", is_leaving=False, missing_files={QWEN: "/q.gguf"}
    )

    assert b"missing" not in encoded(nothing)
    assert decoded(encoded(lacking), HostRecord).missing_files == {"qwen": "/q.gguf"}
    assert routing_summary(lacking) != routing_summary(nothing)


def test_a_model_that_never_ran_has_no_age() -> None:
    """Requests wait for it, so it is listed; JSON has no infinity."""
    qwen = structs.replace(seen(QWEN, Phase.COLD, waiting=1), since=float("-inf"))
    [residence] = described(View(100.0, (qwen,), (waits(1, QWEN, 95.0),))).residents

    assert residence.phase_s is None


def waits(ticket: int, name: ModelName, since: float) -> TicketView:
    return TicketView(TicketId(ticket), name, ClientId("somebody"), since, "")


def test_cold_models_are_not_recorded() -> None:
    """Models in every phase except cold are in the record."""
    models = tuple(seen(ModelName(phase.value), phase) for phase in Phase)

    assert {each.phase for each in described(View(1.0, models, ())).residents} == {
        "loading",
        "ready",
        "asleep",
        "draining",
        "unloading",
        "backoff",
    }


def test_a_cold_model_that_failed_is_reported_as_backing_off() -> None:
    """A cold model that failed is published as backing off, or as cold while requests wait for it."""
    failed, tried_again = seen(QWEN, Phase.COLD, failures=1), seen(LLAMA, Phase.COLD, failures=1, waiting=1)
    residents = described(View(1.0, (failed, tried_again), ())).residents

    assert [(each.model, each.phase) for each in residents] == [("qwen", "backoff"), ("llama", "cold")]


def test_a_cold_model_is_recorded_while_a_request_waits_for_it() -> None:
    """A cold model with waiting requests is in the record, so that no other host loads it."""
    waited_for = seen(QWEN, Phase.COLD, waiting=2)

    assert [(each.phase, each.waiting) for each in described(View(1.0, (waited_for,), ())).residents] == [("cold", 2)]


def test_a_model_that_left_the_catalog_is_recorded_while_its_process_runs() -> None:
    """A model that a reload removed is in the record while its process runs."""
    gone = seen(ModelName("gone"), Phase.DRAINING)

    assert [each.model for each in described(View(1.0, (gone,), ())).residents] == ["gone"]


def test_free_memory_is_what_models_may_still_use() -> None:
    """Free memory is what other programs leave minus what models take, and never negative."""
    devices = (
        DeviceView(gpu(0), 24 * GIB, 20 * GIB, 8 * GIB),
        DeviceView(gpu(1), 24 * GIB, 4 * GIB, 8 * GIB),
    )

    assert described(View(1.0, (), (), devices)).devices == {
        "gpu0": DeviceBudget(24 * GIB, 12 * GIB),
        "gpu1": DeviceBudget(24 * GIB, 0),
    }


def test_a_host_tells_who_it_is() -> None:
    """The record has name, address, labels, boot id, catalog and whether the host leaves, and can be decoded."""
    record = described(View(1.0, (), ()), is_leaving=True)

    assert decoded(encoded(record), HostRecord) == record
    assert (record.name, record.address, record.boot, record.version) == ("gpu1", "http://gpu1:8080", "boot-1", "1.0")
    assert (record.labels, record.catalog, record.is_leaving) == ({"zone": "a"}, "digest", True)


def test_requests_do_not_change_the_gist() -> None:
    """Requests do not change the routing summary; a drain of a model and a leaving host do."""
    quiet = described(View(1.0, (seen(QWEN, Phase.READY),), ()))
    busy = described(View(2.0, (seen(QWEN, Phase.READY, in_flight=9, waiting=3),), ()))
    draining = described(View(2.0, (seen(QWEN, Phase.DRAINING),), ()))

    assert routing_summary(quiet) == routing_summary(busy)
    assert routing_summary(quiet) != routing_summary(draining)
    assert routing_summary(quiet) != routing_summary(
        described(View(1.0, (seen(QWEN, Phase.READY),), ()), is_leaving=True)
    )


# The catalog


def test_an_offer_says_what_others_must_know() -> None:
    """An offer has the model's memory, labels, replicas and aliases."""
    spec = model("qwen", gib=8, aliases=("gpt-4",), replicas=Replicas(1, 3), host_labels={"gpu": "h100"})

    assert catalog_record(with_budget(spec)) == CatalogRecord(
        {
            QWEN: Offer(
                {DeviceName("gpu0"): 8 * GIB},
                labels={"gpu": "h100"},
                aliases=["gpt-4"],
                least=1,
                most=3,
                recipe=recipe_fingerprint(spec.recipe),
            )
        }
    )


def test_an_estimate_stands_in_for_a_declaration() -> None:
    """Without a declared figure, an offer has the estimate."""
    guessed = replace(model("qwen"), estimated={gpu(0): GIB})

    offer = catalog_record(with_budget(guessed)).offers[QWEN]

    assert (offer.memory, offer.is_estimate) == ({"gpu0": GIB}, True)


def test_the_order_of_models_changes_no_digest() -> None:
    """The order of models and labels does not change the digest; another alias does."""
    forth = one_at_a_time(model("a", host_labels={"x": "1", "y": "2"}), "b")
    back = one_at_a_time("b", model("a", host_labels={"y": "2", "x": "1"}))
    other = one_at_a_time(model("a", aliases=("c",)), "b")

    assert digest_of(catalog_record(forth)) == digest_of(catalog_record(back))
    assert digest_of(catalog_record(forth)) != digest_of(catalog_record(other))


def test_selectors_are_not_offered() -> None:
    """Offers contain models only, because the receiving host resolves selectors."""
    selector = Selector("any", Strategy.PIN, ("qwen",))

    assert list(catalog_record(replace(CATALOG, selectors={"any": selector})).offers) == ["llama", "qwen"]


def test_a_choice_of_cards_is_offered() -> None:
    """A number, or the cards of a list; `auto` is the default."""
    catalog = with_budget(
        on_any("auto", 8, 0, 1), on_any("one", 8, 0, 1, count=1), on_any("list", 8, 1, count=1), gib={0: 24, 1: 24}
    )
    offers = catalog_record(catalog).offers

    assert {name: (each.gpus, each.among) for name, each in offers.items()} == {
        "auto": (0, []),
        "one": (1, []),
        "list": (1, ["gpu1"]),
    }


def test_a_model_of_unknown_size_takes_its_whole_cards() -> None:
    """Others know what its host would have if it left; without chosen cards it is the first device."""
    catalog = with_budget(on_any("chosen", None, 0, 1), model("unknown"), gib={0: 24, 1: 16})
    driver = SchedulerDriver(catalog)
    driver.with_ready("unknown").with_ready("chosen")
    residents = described(driver.scheduler.view(driver.now), catalog).residents

    assert {each.model: each.memory for each in residents} == {
        "unknown": {"gpu0": 24 * GIB},
        "chosen": {"gpu1": 16 * GIB},
    }
