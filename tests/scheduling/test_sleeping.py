"""Models that sleep instead of being stopped: their memory, their requests, and failures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import (
    GIB,
    gpu,
    level,
    model,
    one_at_a_time,
    ram,
    sleeps,
    with_budget,
    with_model,
    with_ram,
)
from tests.support.scheduler_driver import (
    arrives,
    asleep,
    awake,
    cannot_sleep,
    cannot_wake,
    changed,
    clock,
    confirms,
    exited,
    failed,
    grants,
    leaves,
    load,
    nothing,
    puts_to_sleep,
    ready,
    refuses,
    shutdown,
    starts,
    stops,
    unload,
    wakes,
    wakes_at,
)

from hotseat.catalog.spec import Source
from hotseat.errors import Unloaded
from hotseat.identifiers import HOST_MEMORY, LaunchId, ModelName
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import DevicesChanged, MemoryMeasured, YieldRequested
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

QWEN = ModelName("qwen")


@pytest.fixture
def rig(new_driver: NewDriver) -> SchedulerDriver:
    """One model at a time; qwen can sleep, and is ready and unused."""
    return new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama", "gemma")).with_ready("qwen")


@pytest.fixture
def asleep_rig(rig: SchedulerDriver) -> SchedulerDriver:
    """qwen sleeps, llama is ready and unused."""
    rig >> load(1, "llama") << puts_to_sleep("qwen")
    rig.after(1) >> asleep("qwen") << starts("llama")
    rig.after(10) >> ready("llama") << confirms(1)
    return rig


# There and back


def test_a_model_that_can_sleep_is_not_stopped(rig: SchedulerDriver) -> None:
    """Its memory goes to another model when it sleeps, not when it was told to."""
    rig >> arrives(1, "llama") << puts_to_sleep("qwen")

    assert rig.reason == "unloaded for llama: models run one at a time without `devices`"
    assert rig.phase("qwen") is Phase.UNLOADING
    assert rig.why("qwen") == "falling asleep for 0.0 s: unloaded for llama: models run one at a time without `devices`"
    rig >> asleep("qwen") << starts("llama")
    assert rig.phase("qwen") is Phase.ASLEEP
    assert rig.view("qwen").level == "1"
    assert rig.view("qwen").upstream is not None


def test_a_model_in_use_is_drained_before_it_sleeps(new_driver: NewDriver) -> None:
    """A server may abort what it works on when it is put to sleep."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama", patience=0)).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << nothing

    assert driver.phase("qwen") is Phase.DRAINING
    assert (
        driver.why("qwen")
        == "draining 1 request, then going to sleep: unloaded for llama: models run one at a time without `devices`"
    )
    driver >> leaves(1) << puts_to_sleep("qwen")


def test_a_model_asleep_is_woken(asleep_rig: SchedulerDriver) -> None:
    """Nothing is started: its process is there."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")
    asleep_rig >> exited("llama") << wakes("qwen")

    assert asleep_rig.reason == "started for 1 request"
    assert asleep_rig.phase("qwen") is Phase.LOADING
    assert asleep_rig.why("qwen") == "waking qwen: 0 s so far, usually about 10 s"
    asleep_rig.after(2) >> awake("qwen") << grants(2, reason="waited for qwen to wake after evicting llama")


def test_a_model_that_wakes_for_nobody(asleep_rig: SchedulerDriver) -> None:
    """The client may leave; the view still shows that it wakes."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")
    asleep_rig >> exited("llama") << wakes("qwen")
    asleep_rig >> leaves(2) << nothing

    assert asleep_rig.why("qwen") == "waking for 0.0 s, usually about 10.0 s: started for 1 request"
    asleep_rig >> awake("qwen") << nothing
    assert asleep_rig.phase("qwen") is Phase.READY


def test_a_request_that_comes_while_its_model_falls_asleep(rig: SchedulerDriver) -> None:
    """It waits for its turn like everybody else, and wakes the model then."""
    rig >> arrives(1, "llama") << puts_to_sleep("qwen")
    rig >> arrives(2, "qwen") << nothing

    because = "unloaded for llama: models run one at a time without `devices`"
    assert rig.why("qwen") == f"putting qwen to sleep ({because}), then it is woken (about 10 s)"
    rig.after(1) >> asleep("qwen") << starts("llama")
    rig.after(10) >> ready("llama") << grants(1) << wakes_at(61)
    rig >> leaves(1) << stops("llama")
    rig >> exited("llama") << wakes("qwen")
    rig >> awake("qwen") << grants(2)


def test_what_those_wait_for_whose_model_sleeps(asleep_rig: SchedulerDriver) -> None:
    """The sentence says that it is woken, not loaded."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")

    assert asleep_rig.why("qwen") == "stopping llama, then waking qwen (about 10 s)"
    asleep_rig >> exited("llama") << wakes("qwen")
    asleep_rig >> awake("qwen") << grants(2)


def test_files_of_a_model_asleep_are_not_read_ahead(asleep_rig: SchedulerDriver) -> None:
    """It has what it needs."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")

    assert not asleep_rig.reading


# Is it worth it?


def test_a_quick_sleep_is_used_again(rig: SchedulerDriver) -> None:
    """Three seconds there and back are less than stopping and loading."""
    rig.with_sleep_stats("qwen", "llama").with_sleep_stats("qwen", "llama")

    rig >> arrives(1, "llama") << puts_to_sleep("qwen")
    assert rig.scheduler.model_stats.of(QWEN).sleep_stats_by_level["1"].wake_s == pytest.approx(2)
    assert rig.scheduler.model_stats.of(QWEN).sleep_stats_by_level["1"].sleep_s == pytest.approx(1)


def test_a_slow_sleep_is_not_used_again(rig: SchedulerDriver) -> None:
    """After two tries a model that takes longer to wake than to load is stopped."""
    rig.with_sleep_stats("qwen", "llama", wake_s=30).with_sleep_stats("qwen", "llama", wake_s=30)

    rig >> arrives(1, "llama") << stops("qwen", cause=Cause.EVICTION)


def test_the_quickest_level_is_chosen(new_driver: NewDriver) -> None:
    """Each is tried twice, in their order; then what was measured decides."""
    light, deep = level("1"), level("2")
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps(light, deep)), "llama")).with_ready("qwen")
    driver.with_sleep_stats("qwen", "llama", 6, 2).with_sleep_stats("qwen", "llama", 6, 2)
    driver >> load(1, "llama") << puts_to_sleep("qwen", deep)
    driver.after(0.1) >> asleep("qwen") << starts("llama")
    driver.after(10) >> ready("llama") << confirms(1)
    driver.after(100) >> load(2, "qwen") << stops("llama")
    driver >> exited("llama") << wakes("qwen")
    driver.after(3) >> awake("qwen") << confirms(2)
    driver.after(100).with_sleep_stats("qwen", "llama", 0.1, 3)

    driver >> arrives(1, "llama") << puts_to_sleep("qwen", deep)


def test_what_evicting_a_sleeper_costs(new_driver: NewDriver) -> None:
    """A model that wakes quickly is evicted before one that only loads a little faster than that one loads."""
    sleeper, loader = model("qwen", gib=12, sleep=sleeps()), model("llama", gib=12)
    driver = new_driver(with_ram(with_budget(sleeper, loader, model("gemma", gib=12), model("big", gib=24)), 64))
    driver.with_ready("qwen").with_sleep_stats("qwen", "big").with_sleep_stats("qwen", "big").with_ready("llama")
    driver.after(10) >> load(5, "qwen") << confirms(5)
    driver.after(10) >> arrives(6, "gemma") << puts_to_sleep("qwen")


def test_what_was_learned_of_sleep_is_kept(rig: SchedulerDriver, new_driver: NewDriver) -> None:
    """The next run need not try again; what makes no sense is passed over."""
    rig.with_sleep_stats("qwen", "llama", wake_s=30).with_sleep_stats("qwen", "llama", wake_s=30)
    plain = rig.scheduler.model_stats.export()
    plain["llama"]["sleep_stats"] = {"1": "often", "2": {"times": -1, "sleep_s": None, "memory": {"ram": "much"}}}
    again = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama"))
    again.scheduler.model_stats.adopt(plain)
    again.with_ready("qwen")

    again >> arrives(1, "llama") << stops("qwen")
    assert again.scheduler.model_stats.of(ModelName("llama")).sleep_stats_by_level["2"].times == 0


# Memory, by tier


def test_a_sleeper_takes_host_memory(new_driver: NewDriver) -> None:
    """What it had on the device is counted in RAM, where RAM is counted."""
    driver = new_driver(with_ram(with_budget(model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20)), 32))
    driver.with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    reserved = {device.place: device.reserved for device in driver.scheduler.view(driver.now).devices}
    footprint = driver.view("qwen").footprint

    assert reserved == {gpu(0): 20 * GIB, HOST_MEMORY: 20 * GIB}
    assert footprint is not None
    assert (dict(footprint.memory), footprint.source) == (ram(20), Source.ESTIMATED)


def test_without_host_memory_for_it_a_model_is_stopped(new_driver: NewDriver) -> None:
    """What it would keep does not fit."""
    driver = new_driver(with_ram(with_budget(model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20)), 16))
    driver.with_ready("qwen")

    driver >> load(1, "llama") << stops("qwen")


def test_a_deeper_level_fits_where_the_first_does_not(new_driver: NewDriver) -> None:
    """Host memory decides too, not the clock alone."""
    deep = level("2", keeps_weights=False)
    sleep = sleeps(level("1"), deep)
    driver = new_driver(with_ram(with_budget(model("qwen", gib=20, sleep=sleep), model("llama", gib=20)), 16))
    driver.with_ready("qwen")

    driver >> load(1, "llama") << puts_to_sleep("qwen", deep)


def test_what_a_sleeper_keeps_on_the_device_counts(new_driver: NewDriver) -> None:
    """If that leaves too little memory for the waiting model, it is stopped."""
    keeps = level("1", memory={gpu(0): 2 * GIB})
    driver = new_driver(
        with_budget(model("qwen", gib=20, sleep=sleeps(keeps)), model("llama", gib=23), model("gemma", gib=22))
    )
    driver.with_ready("qwen")
    driver >> load(1, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver.after(10) >> ready("llama") << confirms(1)
    driver.after(100) >> load(2, "qwen") << stops("llama")
    driver >> exited("llama") << starts("qwen")
    driver.after(10) >> ready("qwen") << confirms(2)

    driver.after(100) >> load(3, "gemma") << puts_to_sleep("qwen")


def test_a_sleeper_in_the_way_is_stopped(new_driver: NewDriver) -> None:
    """What it keeps is needed: it costs less to end a sleep than to end work."""
    keeps = level("1", memory={gpu(0): 2 * GIB})
    driver = new_driver(
        with_budget(model("qwen", gib=20, sleep=sleeps(keeps)), model("llama", gib=20), model("big", gib=24))
    )
    driver.with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver.after(10) >> ready("llama") << confirms(1)
    driver.after(1000) >> load(2, "big") << stops("qwen") << stops("llama")

    assert driver.phase("qwen") is Phase.UNLOADING
    driver >> exited("qwen") << nothing
    driver >> exited("llama") << starts("big")


def test_the_cheapest_sleeper_is_ended_first(new_driver: NewDriver) -> None:
    """Two sleep if host memory is enough for two; for a third, the cheapest sleeper is stopped."""
    names = ("one", "two", "three", "four")
    models = [model(name, gib=20, sleep=sleeps()) for name in names]
    driver = new_driver(with_ram(with_budget(*models), 40))
    driver.with_ready("one")
    for n, (old, new) in enumerate([("one", "two"), ("two", "three")]):
        driver.after(100) >> load(n, new) << puts_to_sleep(old)
        driver >> asleep(old) << starts(new)
        driver.after(10) >> ready(new) << confirms(n)

    driver.after(100) >> load(9, "four") << stops("three")
    assert [driver.phase(name) for name in names[:2]] == [Phase.ASLEEP] * 2


def test_waking_takes_both_tiers_until_it_is_done(new_driver: NewDriver) -> None:
    """Another one that would fit beside either of the two does not fit beside both."""
    both = level("1", memory=ram(20))
    models = (model("qwen", gib=20, sleep=sleeps(both)), model("llama", gib=20), replace(model("cpu"), memory=ram(20)))
    driver = new_driver(with_ram(with_budget(*models), 32)).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver.after(10) >> ready("llama") << confirms(1)
    driver.after(1000) >> arrives(2, "qwen") << stops("llama")
    driver >> exited("llama") << wakes("qwen")
    driver >> arrives(3, "cpu") << nothing

    driver >> awake("qwen") << grants(2) << starts("cpu")


def test_memory_that_was_free_at_the_eviction_and_is_not_at_the_end(new_driver: NewDriver) -> None:
    """While it drained others came to the host memory: then it is stopped after all."""
    models = (model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20))
    driver = new_driver(with_ram(with_budget(*models, patience=0), 32)).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << nothing
    driver >> DevicesChanged({HOST_MEMORY: 4 * GIB}) << wakes_at(driver.now + 1)

    driver >> leaves(1) << stops("qwen")


def test_a_crowded_host_ends_a_sleep(new_driver: NewDriver) -> None:
    """Others take the RAM in which it sleeps."""
    models = (model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20))
    driver = new_driver(with_ram(with_budget(*models), 32)).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver.after(10) >> ready("llama") << confirms(1)

    driver >> DevicesChanged({HOST_MEMORY: 4 * GIB}) << stops("qwen", cause=Cause.EXCEEDS_MEMORY)


def test_what_a_sleeper_keeps_is_learned(new_driver: NewDriver) -> None:
    """Measured asleep, it says nothing about what it needs awake; and it is remembered for the next time."""
    models = (model("qwen", sleep=sleeps()), model("llama", gib=20))
    driver = new_driver(with_ram(with_budget(*models), 32)).with_ready("qwen")
    driver >> MemoryMeasured(QWEN, LaunchId(1), {gpu(0): 20 * GIB}) << nothing
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver >> MemoryMeasured(QWEN, LaunchId(1), {gpu(0): GIB, HOST_MEMORY: 5 * GIB}) << nothing
    footprint = driver.view("qwen").footprint

    assert footprint is not None
    assert (dict(footprint.memory), footprint.source) == ({gpu(0): GIB, **ram(5)}, Source.MEASURED)
    assert driver.scheduler.needs(QWEN) == {gpu(0): 20 * GIB}


def test_somebody_with_precedence_ends_sleeps(new_driver: NewDriver) -> None:
    """Those that keep something where he wants everything; the others sleep on."""
    on_card = model("qwen", gib=10, sleep=sleeps(level("1", memory={gpu(0): GIB})))
    in_ram = model("llama", gib=10, sleep=sleeps(level("1", memory=ram(10))))
    driver = (
        new_driver(with_ram(with_budget(on_card, in_ram, model("big", gib=23)), 64))
        .with_ready("qwen")
        .with_ready("llama")
    )
    driver >> load(1, "big") << puts_to_sleep("qwen") << puts_to_sleep("llama")
    driver >> asleep("llama") << nothing

    driver >> YieldRequested("a game runs", frozenset({gpu(0)})) << refuses(1) << stops("qwen", cause=Cause.YIELD)
    assert driver.phase("llama") is Phase.ASLEEP


# Those that cannot


def test_a_model_that_cannot_be_put_to_sleep(rig: SchedulerDriver) -> None:
    """It is stopped, and not tried again until an operator loads it."""
    rig >> load(1, "llama") << puts_to_sleep("qwen")
    rig >> cannot_sleep("qwen") << stops("qwen", cause=Cause.EVICTION)

    assert "putting it to sleep failed (POST /sleep was answered with 500)" in rig.reason
    rig >> exited("qwen") << starts("llama")
    rig.after(10) >> ready("llama") << confirms(1)
    rig.after(100) >> arrives(2, "qwen") << stops("llama")
    rig >> exited("llama") << starts("qwen")
    rig.after(10) >> ready("qwen") << grants(2)
    rig >> leaves(2) << nothing
    rig.after(100) >> load(3, "llama") << stops("qwen")
    rig >> exited("qwen") << starts("llama")
    rig.after(10) >> ready("llama") << confirms(3)
    rig.after(100) >> load(4, "qwen") << stops("llama")
    rig >> exited("llama") << starts("qwen")
    rig.after(10) >> ready("qwen") << confirms(4)
    rig.after(100) >> load(5, "llama") << puts_to_sleep("qwen")


def test_a_model_that_cannot_be_woken_is_started_anew(asleep_rig: SchedulerDriver) -> None:
    """Waiting requests only wait longer."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")
    asleep_rig >> exited("llama") << wakes("qwen")
    asleep_rig >> cannot_wake("qwen") << stops("qwen", cause=Cause.WAKE_FAILED)

    assert asleep_rig.reason == "waking it failed (it had not woken after 120 seconds)"
    asleep_rig >> exited("qwen") << starts("qwen")
    asleep_rig >> ready("qwen") << grants(2)


def test_a_model_that_dies_in_its_sleep(asleep_rig: SchedulerDriver) -> None:
    """It is cold and does not back off: it served no request, and its next start may well succeed."""
    asleep_rig >> exited("qwen") << nothing

    assert asleep_rig.phase("qwen") is Phase.COLD
    assert asleep_rig.why("qwen") == "qwen was killed by SIGKILL while asleep"
    assert asleep_rig.view("qwen").failures == 0


def test_a_model_that_dies_of_being_woken(asleep_rig: SchedulerDriver) -> None:
    """It is started again at once for the waiting requests."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")
    asleep_rig >> exited("llama") << wakes("qwen")

    asleep_rig >> exited("qwen") << starts("qwen")
    asleep_rig >> ready("qwen") << grants(2)


def test_a_model_that_dies_while_it_falls_asleep(rig: SchedulerDriver) -> None:
    """Its memory is free all the same, and the level is not used again."""
    rig >> load(1, "llama") << puts_to_sleep("qwen")
    rig >> exited("qwen") << starts("llama")
    rig.after(10) >> ready("llama") << confirms(1)
    rig.after(100) >> arrives(2, "qwen") << stops("llama")
    rig >> exited("llama") << starts("qwen")
    rig >> ready("qwen") << grants(2)
    rig >> leaves(2) << nothing

    rig.after(100) >> load(3, "llama") << stops("qwen")


def test_facts_about_sleep_that_come_too_late(asleep_rig: SchedulerDriver) -> None:
    """Repeated or unrelated to what is in progress, they change nothing."""
    for fact in (asleep("qwen"), awake("qwen"), cannot_sleep("qwen"), cannot_wake("qwen"), asleep("llama")):
        asleep_rig >> fact << nothing

    assert asleep_rig.phase("qwen") is Phase.ASLEEP


# Those that are not to sleep any longer


def test_a_sleep_has_its_ttl(new_driver: NewDriver) -> None:
    """Then the process ends; not while requests wait for it."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps(ttl_s=60)), "llama")).with_ready("qwen")
    driver.at(20) >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama") << wakes_at(80)
    driver.at(30) >> ready("llama") << confirms(1)

    assert driver.view("qwen").expires_at == 80
    driver.at(80) >> clock << stops("qwen", cause=Cause.TTL)
    assert driver.reason == "asleep for its sleep.ttl of 60 s"


def test_an_operator_ends_a_sleep(asleep_rig: SchedulerDriver) -> None:
    """The operator is notified when the process is gone."""
    asleep_rig >> unload(2, "qwen") << stops("qwen", cause=Cause.OPERATOR)
    asleep_rig >> exited("qwen") << confirms(2)


def test_an_operator_stops_a_model_that_falls_asleep(rig: SchedulerDriver) -> None:
    """The stop wins; a late report that it sleeps is ignored."""
    rig >> load(1, "llama") << puts_to_sleep("qwen")
    rig >> unload(2, "qwen") << stops("qwen", cause=Cause.OPERATOR)
    rig >> asleep("qwen") << nothing
    rig >> exited("qwen") << confirms(2) << starts("llama")


def test_an_operator_stops_a_model_that_drains_for_its_sleep(new_driver: NewDriver) -> None:
    """It will not sleep."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama", patience=0)).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << nothing
    driver >> unload(3, "qwen") << wakes_at(driver.now + 10)

    driver >> leaves(1) << stops("qwen")


def test_an_operator_stops_a_model_that_wakes(asleep_rig: SchedulerDriver) -> None:
    """Waiting requests are refused, as during a load."""
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")
    asleep_rig >> exited("llama") << wakes("qwen")

    asleep_rig >> unload(3, "qwen") << refuses(2, Unloaded) << stops("qwen", cause=Cause.OPERATOR)
    asleep_rig >> awake("qwen") << nothing
    asleep_rig >> exited("qwen") << confirms(3)


def test_a_changed_configuration_ends_a_sleep(asleep_rig: SchedulerDriver) -> None:
    """A process of the old recipe is of no use any more; a changed way to sleep is none of its business."""
    catalog = asleep_rig.scheduler.catalog
    asleep_rig >> changed(with_model(catalog, model("qwen", sleep=sleeps(level("2"))))) << nothing
    asleep_rig >> changed(with_model(catalog, model("qwen", version=2))) << stops("qwen", cause=Cause.CONFIGURATION)


def test_a_model_asleep_that_may_not_sleep_any_more(asleep_rig: SchedulerDriver) -> None:
    """It is woken in the way that belongs to how it was put to sleep."""
    asleep_rig >> changed(with_model(asleep_rig.scheduler.catalog, model("qwen"))) << nothing

    assert asleep_rig.view("qwen").expires_at is None
    asleep_rig.after(1000) >> arrives(2, "qwen") << stops("llama")
    asleep_rig >> exited("llama") << wakes("qwen")
    asleep_rig >> awake("qwen") << grants(2)


def test_a_shutdown_while_a_model_sleeps(asleep_rig: SchedulerDriver) -> None:
    """No process outlives it."""
    asleep_rig >> shutdown() << stops("qwen", cause=Cause.SHUTDOWN) << stops("llama", cause=Cause.SHUTDOWN)


def test_an_older_claim_on_a_sleeper_in_the_way(new_driver: NewDriver) -> None:
    """An older claim on a sleeping model is not delayed because its process is stopped for a younger claim."""
    keeps = level("1", memory={gpu(0): 2 * GIB})
    driver = new_driver(
        with_budget(model("qwen", gib=20, sleep=sleeps(keeps)), model("llama", gib=20), model("big", gib=24))
    )
    driver.with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver.after(10) >> ready("llama") << confirms(1)
    driver >> arrives(2, "llama") << grants(2)
    driver >> arrives(3, "qwen") << wakes_at(driver.now + 40)
    driver.after(1) >> arrives(4, "big") << nothing

    assert driver.phase("qwen") is Phase.ASLEEP


def test_a_sleeper_does_not_leave_for_itself(new_driver: NewDriver) -> None:
    """It waits for the model in use, and is woken then."""
    kept = level("1", memory={gpu(0): 10 * GIB})
    driver = new_driver(with_budget(model("sleeper", gib=20, sleep=sleeps(kept)), model("other", gib=12)))
    driver.with_ready("sleeper")
    driver >> arrives(1, "other")
    driver._unasserted.clear()
    driver >> asleep("sleeper")
    driver._unasserted.clear()
    driver.after(5) >> ready("other")
    driver._unasserted.clear()
    driver >> arrives(2, "sleeper")
    driver._unasserted.clear()

    assert driver.phase("sleeper") is Phase.ASLEEP
    assert driver.why("sleeper").startswith("other is protected")


def test_a_sleeper_ends_for_an_older_claim_and_is_not_woken_in_the_same_moment(new_driver: NewDriver) -> None:
    """Its own, younger claim waits until its process is gone."""
    sleeper, in_ram = model("sleeper", gib=20, sleep=sleeps()), replace(model("in ram"), memory=ram(10))
    catalog = with_ram(with_budget(sleeper, in_ram, model("loading", gib=20)), 24)
    driver = new_driver(catalog)
    driver.with_ready("sleeper")
    for fact in (arrives(1, "loading"), asleep("sleeper"), arrives(2, "in ram"), arrives(3, "sleeper")):
        driver >> fact
        driver._unasserted.clear()
    driver >> failed("loading")
    driver._unasserted.clear()

    assert driver.phase("sleeper") is Phase.UNLOADING


def test_a_victim_does_not_sleep_in_the_memory_that_the_wanted_model_sleeps_in(new_driver: NewDriver) -> None:
    """That is free only once the wanted model is awake, and it needs the victim's memory for that."""
    rig = new_driver(with_ram(with_budget(model("a", gib=14, sleep=sleeps()), model("b", gib=16, sleep=sleeps())), 20))
    rig.with_ready("a")
    rig >> arrives(1, "b") << puts_to_sleep("a")
    rig.after(1) >> asleep("a") << starts("b")
    rig.after(10) >> ready("b") << grants(1)
    rig.after(1) >> arrives(2, "a") << wakes_at(62)
    rig.at(62) >> clock << nothing

    assert rig.why("b").endswith("then stopping: unloaded to free memory for a")
    rig >> leaves(1) << stops("b")
