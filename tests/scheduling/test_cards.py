"""Which cards a model gets, if hotseat chooses them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from tests.support.catalogs import GIB, gpu, model, sleeps, with_budget, with_ram
from tests.support.scheduler_driver import (
    arrives,
    asleep,
    changed,
    clock,
    confirms,
    exited,
    grants,
    leaves,
    left_by_others,
    load,
    measured_on_cards,
    nothing,
    puts_to_sleep,
    ready,
    refuses,
    starts_on,
    stops,
    unload,
    wakes,
    wakes_at,
)

from hotseat.catalog.spec import GpuChoice
from hotseat.errors import NeverFits, Yielding
from hotseat.identifiers import ANY_GPU, ModelName
from hotseat.scheduling import state
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import YieldRequested
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec

MOST_CARDS = 24


def anywhere(name: str, gib: float | None = None, count: int | None = None, **known: Any) -> ModelSpec:
    """A model with `gpus: auto`, or with this number of cards."""
    memory = None if gib is None else {ANY_GPU: int(gib * GIB)}
    return replace(model(name, **known), memory=memory, gpus=GpuChoice(count, tuple(map(gpu, range(MOST_CARDS)))))


def listed(name: str, gib: float, *cards: int, **known: Any) -> ModelSpec:
    """A model with `gpus: [gpu…]`."""
    return replace(anywhere(name, gib, **known), gpus=GpuChoice(len(cards), tuple(map(gpu, cards))))


def cards(*models: ModelSpec, gib: tuple[float, ...] = (24, 24), **policy: Any) -> Catalog:
    """A machine with cards of these sizes: a model may get those that there are."""
    catalog = with_budget(*models, gib=dict(enumerate(gib)), **policy)
    return replace(catalog, models={name: on_these(spec, len(gib)) for name, spec in catalog.models.items()})


def on_these(spec: ModelSpec, number: int) -> ModelSpec:
    if spec.gpus is None:
        return spec
    there = tuple(map(gpu, range(number)))
    return replace(
        spec, gpus=structs.replace(spec.gpus, among=tuple(card for card in spec.gpus.among if card in there))
    )


# A free card


def test_a_model_starts_on_a_free_card(new_driver: NewDriver) -> None:
    """Nothing is evicted as long as a card has enough free memory."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20)))

    driver >> arrives(1, "a") << starts_on("a", 0)
    driver >> arrives(2, "b") << starts_on("b", 1)


def test_the_fullest_card_that_fits(new_driver: NewDriver) -> None:
    """A small model goes beside another one, so that the empty card stays whole for a large model."""
    driver = new_driver(cards(anywhere("first", 10), anywhere("small", 4), anywhere("large", 24)))
    driver.with_ready("first")

    driver >> load(1, "small") << starts_on("small", 0)
    driver >> arrives(2, "large") << starts_on("large", 1)


def test_the_smallest_gap_of_unequal_cards(new_driver: NewDriver) -> None:
    """The 12 GiB card is the fuller one, although it is empty."""
    driver = new_driver(cards(anywhere("small", 8), anywhere("large", 40), gib=(48, 12)))

    driver >> arrives(1, "small") << starts_on("small", 1)
    driver >> arrives(2, "large") << starts_on("large", 0)


def test_as_few_cards_as_it_fits_on(new_driver: NewDriver) -> None:
    """One if it fits on one, else two: the smallest that are enough."""
    driver = new_driver(cards(anywhere("two", 36), anywhere("one", 24), gib=(16, 32, 24)))

    driver >> arrives(1, "two") << starts_on("two", 0, 2)
    driver >> arrives(2, "one") << starts_on("one", 1)


def test_two_cards_share_a_model_in_proportion_to_their_sizes(new_driver: NewDriver) -> None:
    """Of 36 GiB, 12 are on the card of 16 and 24 on the card of 32 GiB, so 4 and 8 are left."""
    driver = new_driver(cards(anywhere("two", 36), anywhere("four", 4), anywhere("eight", 8), gib=(16, 32)))

    driver >> arrives(1, "two") << starts_on("two", 0, 1)
    driver >> arrives(2, "eight") << starts_on("eight", 1)
    driver >> arrives(3, "four") << starts_on("four", 0)


def test_one_card_is_waited_for_rather_than_splitting(new_driver: NewDriver) -> None:
    """A model that fits on one card never gets two, even if both have half of what it needs."""
    models = anywhere("a", 14), anywhere("b", 14), anywhere("c", 20)
    driver = new_driver(cards(*models))
    driver.with_ready("a").with_ready("b")

    driver >> arrives(1, "c") << stops("a")
    driver >> exited("a") << starts_on("c", 0)
    assert driver.phase("b") is Phase.READY


def test_a_number_of_cards(new_driver: NewDriver) -> None:
    """The fullest pair that fits, also for a model that would fit on one."""
    driver = new_driver(cards(anywhere("full", 20), anywhere("pair", 12, count=2), gib=(24, 24, 24)))
    driver.with_ready("full")

    driver >> arrives(1, "pair") << starts_on("pair", 1, 2)


def test_a_machine_with_fewer_cards_than_a_model_wants(new_driver: NewDriver) -> None:
    """It gets all cards there are; without budgets hotseat knows none, and its server decides."""
    driver = new_driver(cards(anywhere("three", 12, count=3)))
    driver >> arrives(1, "three") << starts_on("three", 0, 1)

    unknown = new_driver(replace(cards(anywhere("three", 12, count=3), gib=()), budgets={}))
    unknown >> arrives(1, "three") << starts_on("three")


def test_a_model_that_is_too_large_for_all_cards(new_driver: NewDriver) -> None:
    """It is refused with its share of the first one."""
    driver = new_driver(cards(anywhere("huge", 50), anywhere("fits", 48)))

    driver >> arrives(1, "huge") << refuses(1, NeverFits)
    assert "huge never fits: it needs 25 GiB, but the budget of gpu0 is 24 GiB" in driver.error.message
    driver >> arrives(2, "fits") << starts_on("fits", 0, 1)


def test_a_list_of_cards(new_driver: NewDriver) -> None:
    """Exactly these, whatever is free elsewhere."""
    driver = new_driver(cards(anywhere("a", 20), listed("b", 20, 0)))
    driver.with_ready("a")

    driver >> arrives(1, "b") << stops("a")
    driver >> exited("a") << starts_on("b", 0)


def test_a_declared_device_wins(new_driver: NewDriver) -> None:
    """`memory: {gpu1: …}` says where the model runs: its server decides, and others avoid that card."""
    driver = new_driver(cards(model("fixed", gib=20, on=1), anywhere("a", 8), anywhere("b", 20)))
    driver.with_ready("fixed")

    driver >> load(1, "b") << starts_on("b", 0)
    driver >> ready("b") << confirms(1)
    driver >> unload(2, "b") << stops("b")
    driver >> exited("b") << confirms(2)
    driver >> arrives(3, "a") << starts_on("a", 0)


def test_a_declared_device_starts_without_a_choice(new_driver: NewDriver) -> None:
    """No variable is set for it."""
    driver = new_driver(cards(model("fixed", gib=20, on=1)))

    driver >> arrives(1, "fixed") << starts_on("fixed")


def test_a_card_that_other_programs_use(new_driver: NewDriver) -> None:
    """What they leave counts, not the size of the card."""
    driver = new_driver(cards(anywhere("a", 20)))
    driver >> left_by_others(10, on=0) << nothing

    driver >> arrives(1, "a") << starts_on("a", 1)


# A card must be freed


def test_the_card_with_the_least_loss_is_freed(new_driver: NewDriver) -> None:
    """The model that was unused for longest leaves, on whichever card it is."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20), anywhere("c", 20)))
    driver.with_ready("a", 1).with_ready("b", 2)
    driver.at(30) >> leaves(2) << nothing
    driver.at(60) >> leaves(1) << nothing

    driver.at(61) >> arrives(3, "c") << stops("b")
    driver >> exited("b") << starts_on("c", 1)


def test_the_card_of_an_idle_model_rather_than_of_a_busy_one(new_driver: NewDriver) -> None:
    """A request that runs is not waited for where another card can be freed at once."""
    driver = new_driver(cards(anywhere("busy", 20), anywhere("idle", 20), anywhere("c", 20)))
    driver.with_ready("busy", 1).with_ready("idle")

    driver >> arrives(2, "c") << stops("idle")
    driver >> exited("idle") << starts_on("c", 1)


def test_one_small_model_rather_than_a_large_one(new_driver: NewDriver) -> None:
    """Only as much is freed as is missing: 2 GiB on gpu0, where another model stays."""
    models = anywhere("tiny", 4, count=1), anywhere("stays", 10), anywhere("big", 23), anywhere("c", 12)
    driver = new_driver(cards(*models))
    driver.with_ready("tiny").with_ready("stays").with_ready("big", 1)

    driver >> arrives(2, "c") << stops("tiny")
    driver >> exited("tiny") << starts_on("c", 0)
    assert driver.phase("stays") is driver.phase("big") is Phase.READY


def test_a_pinned_model_keeps_its_card(new_driver: NewDriver) -> None:
    """Others share what it leaves, or use another card."""
    driver = new_driver(cards(anywhere("pinned", 10, pinned=True), anywhere("a", 20), anywhere("b", 20)))
    driver.with_ready("pinned").with_ready("a")

    driver >> arrives(1, "b") << stops("a")
    driver >> exited("a") << starts_on("b", 1)


def test_a_model_that_runs_is_never_moved(new_driver: NewDriver) -> None:
    """Two halves that are free on two cards are no card: one of the models leaves, and none is restarted elsewhere."""
    driver = new_driver(cards(anywhere("a", 13), anywhere("b", 13), anywhere("c", 22)))
    driver.with_ready("a", 1).with_ready("b", 2)
    driver >> arrives(3, "c") << wakes_at(60)

    driver.at(40) >> leaves(1) << stops("a")
    driver >> exited("a") << starts_on("c", 0)
    driver >> ready("c") << grants(3)
    assert driver.launches["b"] == 2


def test_cards_are_chosen_again_at_the_next_start(new_driver: NewDriver) -> None:
    """A model comes back where there is memory, not where it was."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20), anywhere("c", 20)))
    driver.with_ready("a").with_ready("b")
    driver >> arrives(1, "c") << stops("a")
    driver >> exited("a") << starts_on("c", 0)
    driver.after(10) >> ready("c") << grants(1)

    driver >> arrives(2, "a") << stops("b")
    driver >> exited("b") << starts_on("a", 1)


def test_two_claims_get_two_cards_at_the_same_time(new_driver: NewDriver) -> None:
    """The second does not take the memory that is being freed for the first."""
    driver = new_driver(cards(*(anywhere(name, 20) for name in ("a", "b", "c", "d"))))
    driver.with_ready("a", 1).with_ready("b", 2)
    driver >> arrives(3, "c") << wakes_at(60)
    driver >> arrives(4, "d") << nothing
    driver.at(30) >> leaves(1) << stops("a")
    driver >> leaves(2) << nothing

    driver >> exited("a") << starts_on("c", 0)
    driver >> ready("c") << grants(3) << stops("b")
    driver >> exited("b") << starts_on("d", 1)


def test_a_free_card_does_not_wait_for_a_load_on_another(new_driver: NewDriver) -> None:
    """Both load at once."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20), anywhere("c", 40)))

    driver >> arrives(1, "a") << starts_on("a", 0)
    driver >> arrives(2, "c") << nothing
    driver >> arrives(3, "b") << starts_on("b", 1)


def test_a_model_for_two_cards_frees_both(new_driver: NewDriver) -> None:
    """It starts when the second is free, too."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20), anywhere("wide", 40)))
    driver.with_ready("a").with_ready("b")

    driver >> arrives(1, "wide") << stops("a") << stops("b")
    driver >> exited("a") << nothing
    driver >> exited("b") << starts_on("wide", 0, 1)


# Unknown and measured sizes


def test_a_model_of_unknown_size_takes_a_whole_card(new_driver: NewDriver) -> None:
    """An empty one if there is one, and nothing goes beside it."""
    driver = new_driver(cards(anywhere("small", 4), anywhere("unknown"), anywhere("other", 4)))
    driver.with_ready("small")

    driver >> arrives(1, "unknown") << starts_on("unknown", 1)
    driver >> arrives(2, "other") << starts_on("other", 0)


def test_memory_measured_on_one_card_counts_on_another(new_driver: NewDriver) -> None:
    """It was of unknown size on gpu0; now 6 GiB of gpu1 are enough."""
    driver = new_driver(cards(anywhere("new"), anywhere("a", 20), anywhere("b", 18)))
    driver.with_ready("new")
    driver >> measured_on_cards("new", 6) << nothing
    driver >> unload(1, "new") << stops("new")
    driver >> exited("new") << confirms(1)
    driver.with_ready("a").with_ready("b")

    driver >> arrives(2, "new") << starts_on("new", 1)


def test_the_buffers_of_each_further_card_count(new_driver: NewDriver) -> None:
    """40 GiB on two cards with 5 GiB more on the second: 20 and 25, so it needs three."""
    wide = replace(anywhere("wide", 40), per_gpu=5 * GIB)
    driver = new_driver(cards(wide, gib=(24, 24, 24)))

    driver >> arrives(1, "wide") << starts_on("wide", 0, 1, 2)


# Sleep


def test_a_sleeping_model_wakes_on_its_card(new_driver: NewDriver) -> None:
    """Its process still uses that card, so the model there leaves although the other card is free."""
    sleeper = replace(anywhere("sleeper", 20), sleep=sleeps())
    driver = new_driver(with_ram(cards(sleeper, anywhere("a", 20), anywhere("b", 20)), 64))
    driver.with_ready("sleeper").with_ready("a", 1)
    driver >> arrives(2, "b") << puts_to_sleep("sleeper")
    driver >> asleep("sleeper") << starts_on("b", 0)
    driver.after(10) >> ready("b") << grants(2)
    driver >> leaves(2) << nothing
    driver >> leaves(1) << nothing

    driver.after(100) >> arrives(3, "sleeper") << stops("b")
    driver >> exited("b") << wakes("sleeper")
    assert driver.phase("a") is Phase.READY


def test_a_sleeping_model_whose_card_was_taken_starts_on_another(new_driver: NewDriver) -> None:
    """A pinned model stays on its card, so its server ends; the request waits and is not refused."""
    sleeper = replace(anywhere("sleeper", 20), sleep=sleeps())
    driver = new_driver(with_ram(cards(sleeper, listed("pinned", 20, 0, pinned=True), anywhere("b", 20)), 64))
    driver.with_ready("sleeper")
    driver >> load(1, "pinned") << puts_to_sleep("sleeper")
    driver >> asleep("sleeper") << starts_on("pinned", 0)
    driver.after(10) >> ready("pinned") << confirms(1)
    driver.with_ready("b")

    driver >> arrives(2, "sleeper") << stops("sleeper", cause=Cause.EVICTION)
    assert driver.reason == "the GPUs on which it sleeps are taken, and it fits on others"
    driver >> exited("sleeper") << stops("b")
    driver >> exited("b") << starts_on("sleeper", 1)
    driver >> ready("sleeper") << grants(2)


def test_a_sleeping_model_whose_card_other_programs_use_starts_on_another(new_driver: NewDriver) -> None:
    """It does not wait until they have finished."""
    sleeper = replace(anywhere("sleeper", 20), sleep=sleeps())
    driver = new_driver(with_ram(cards(sleeper, listed("a", 20, 0)), 64))
    driver.with_ready("sleeper")
    driver >> load(1, "a") << puts_to_sleep("sleeper")
    driver >> asleep("sleeper") << starts_on("a", 0)
    driver >> ready("a") << confirms(1)
    driver >> left_by_others(10, on=0) << stops("a")
    driver >> exited("a") << nothing

    driver >> arrives(2, "sleeper") << stops("sleeper")
    driver >> exited("sleeper") << starts_on("sleeper", 1)


def test_a_sleeping_model_that_fits_nowhere_is_refused(new_driver: NewDriver) -> None:
    """Its server goes on sleeping: a restart would not help."""
    sleeper = replace(anywhere("sleeper", 20), sleep=sleeps())
    taken = [listed(f"p{n}", 20, n, pinned=True) for n in range(2)]
    driver = new_driver(with_ram(cards(sleeper, *taken), 64))
    driver.with_ready("sleeper")
    driver >> load(1, "p0") << puts_to_sleep("sleeper")
    driver >> asleep("sleeper") << starts_on("p0", 0)
    driver >> ready("p0") << confirms(1)
    driver.with_ready("p1")

    driver >> arrives(2, "sleeper") << refuses(2, NeverFits)
    assert driver.phase("sleeper") is Phase.ASLEEP


# Reasons


def test_a_card_that_is_being_freed_anyway_is_waited_for(new_driver: NewDriver) -> None:
    """The idle model on the other card stays, and `why` names the one that leaves."""
    driver = new_driver(cards(anywhere("idle", 20), anywhere("leaves", 20), anywhere("c", 20)))
    driver.with_ready("idle").with_ready("leaves", 1)
    driver >> unload(2, "leaves") << wakes_at(30)

    driver >> arrives(3, "c") << nothing
    assert driver.why("c") == "draining leaves (1 request running for 0 s), then loading c"
    driver >> leaves(1) << stops("leaves")
    driver >> exited("leaves") << confirms(2) << starts_on("c", 1)


def test_why_names_the_model_on_the_card_that_is_freed(new_driver: NewDriver) -> None:
    """A model that drains on another card has nothing to do with it."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20), anywhere("c", 20)))
    driver.with_ready("a").with_ready("b", 1)
    driver >> unload(2, "b") << wakes_at(30)
    driver >> unload(3, "a") << stops("a")
    driver >> arrives(4, "c") << nothing

    assert driver.why("c") == "stopping a, then loading c"


def test_why_says_which_model_keeps_the_card(new_driver: NewDriver) -> None:
    """It waits for the card that is free first."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("b", 20), anywhere("c", 20)))
    driver.with_ready("a", 1).with_ready("b", 2)
    driver >> arrives(3, "c") << wakes_at(60)

    assert driver.why("c").startswith("a is protected for at most")
    driver.at(60) >> clock << nothing
    assert driver.why("c").startswith("draining a")


@pytest.mark.parametrize("number", [1, 2, 8, 24])
def test_every_card_is_used(new_driver: NewDriver, number: int) -> None:
    """As many models as there are cards run together, if each needs one; larger sets of cards are not looked at."""
    driver = new_driver(cards(*(anywhere(f"m{n}", 20) for n in range(number)), gib=(24,) * number))
    for n in range(number):
        driver >> arrives(n, f"m{n}") << starts_on(f"m{n}", n)


def test_more_sets_of_cards_than_are_remembered(new_driver: NewDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model needs on each is computed again."""
    monkeypatch.setattr(state, "MOST_SPREADS", 4)
    driver = new_driver(cards(anywhere("a", 20, count=2), anywhere("b", 20, count=2), gib=(24,) * 4))

    driver >> arrives(1, "a") << starts_on("a", 0, 1)
    driver >> arrives(2, "b") << starts_on("b", 0, 1)


# What once went wrong


def test_a_new_catalog_keeps_what_was_measured(new_driver: NewDriver) -> None:
    """An operator's override unloads nothing: measured memory counts on, whatever card it is on."""
    catalog = cards(anywhere("a"), anywhere("b"), gib=(24,))
    driver = new_driver(catalog)
    driver.scheduler.model_stats.of(ModelName("a")).memory = {ANY_GPU: 8 * GIB}
    driver.scheduler.model_stats.of(ModelName("b")).memory = {ANY_GPU: 8 * GIB}
    driver.with_ready("a").with_ready("b")

    driver >> changed(catalog) << nothing


def test_a_yielded_card_is_not_chosen(new_driver: NewDriver) -> None:
    """The model starts on the other card; if all of them are yielded, its requests are refused."""
    driver = new_driver(cards(anywhere("a", 20), anywhere("u"), gib=(24, 20)))
    driver >> YieldRequested("a game", frozenset({gpu(1)})) << nothing
    driver >> arrives(1, "a") << starts_on("a", 0)

    other = new_driver(cards(anywhere("a", 20), gib=(24, 20)))
    other >> YieldRequested("a game", frozenset({gpu(0), gpu(1)})) << nothing
    other >> arrives(1, "a") << refuses(1, Yielding)


def test_a_card_is_removed_under_a_model_of_unknown_size(new_driver: NewDriver) -> None:
    """It leaves, as after every change of its process."""
    driver = new_driver(cards(anywhere("a")))
    driver.with_ready("a")
    driver >> changed(cards(anywhere("a"), gib=(24,)))
    driver._unasserted.clear()

    assert driver.phase("a") is not Phase.READY


def test_other_programs_do_not_move_a_split_model(new_driver: NewDriver) -> None:
    """What it has on each card stays what it was at its start."""
    driver = new_driver(cards(anywhere("wide", 30), replace(model("small", gib=8), gpus=None)))
    driver.with_ready("wide").with_ready("small")

    driver >> left_by_others(20, on=1) << nothing


def test_two_cards_where_pinned_models_leave_too_little_on_each(new_driver: NewDriver) -> None:
    """It never fits on one of them, so both are used."""
    pinned = [model(f"p{n}", gib=10, on=n, pinned=True) for n in range(2)]
    driver = new_driver(cards(*pinned, anywhere("a", 20)))
    driver.with_ready("p0").with_ready("p1")

    driver >> arrives(1, "a") << starts_on("a", 0, 1)


def test_a_card_without_memory_is_not_chosen(new_driver: NewDriver) -> None:
    """Other programs have taken all of it."""
    driver = new_driver(cards(anywhere("a", 20)))
    driver >> left_by_others(0, on=0) << nothing

    driver >> arrives(1, "a") << starts_on("a", 1)


def test_the_bound_counts_models_whose_cards_are_not_chosen_yet(new_driver: NewDriver) -> None:
    """Each that waits for the same card comes one rotation later."""
    driver = new_driver(cards(*(anywhere(name, 20) for name in "abc"), gib=(24,)))
    driver.scheduler.model_stats.adopt({name: {"load_s": 20.0, "stop_s": 1.0, "drain_s": 2.0} for name in "abc"})
    driver.with_ready("a", 1)
    for ticket, name in enumerate("bc", start=2):
        driver >> arrives(ticket, name)
        driver._unasserted.clear()
    first, second = driver.scheduler.view(driver.now).queue

    assert first.not_later_than is not None
    assert second.not_later_than is not None
    assert second.not_later_than > first.not_later_than + 100


def test_a_model_that_does_not_free_enough_is_not_waited_for(new_driver: NewDriver) -> None:
    """Beside a pinned model its memory is too little."""
    pinned = model("pinned", gib=18, pinned=True)
    driver = new_driver(cards(pinned, model("small", gib=4), model("large", gib=20, on=1), anywhere("new", 20)))
    driver.with_ready("pinned").with_ready("small", 1).with_ready("large", 2)
    driver >> arrives(3, "new")
    driver._unasserted.clear()

    assert driver.why("new").startswith("large is protected")
