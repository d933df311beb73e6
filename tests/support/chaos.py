"""A Hypothesis state machine that applies random events in random order to a World."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.support.catalogs import (
    GIB,
    gpu,
    in_groups,
    level,
    model,
    on_any,
    one_at_a_time,
    ram,
    sleeps,
    with_budget,
    with_model,
    with_ram,
    without,
)
from tests.support.world import Life, World

from hotseat.catalog.groups import TOGETHER, Group, Groups
from hotseat.identifiers import ModelName
from hotseat.scheduling.queue import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.world import Server

    from hotseat.catalog.catalog import Catalog

T = TypeVar("T")

PAIR = Group("pair", swap=False, members=(ModelName("planner"), ModelName("coder")))
SIDE = Group("side", swap=False, exclusive=False, members=(ModelName("embed"),))
KEPT = Group("kept", persistent=True, members=(ModelName("vision"), ModelName("speech")))

ONE_AT_A_TIME = Groups()
TOGETHER_OR_SIDE = Groups((SIDE,), TOGETHER)

RIGS: dict[str, Catalog] = {
    "one at a time": one_at_a_time(
        model("qwen", ttl_s=30, concurrency_limit=1), "llama", model("gemma", concurrency_limit=2), max_queue=6
    ),
    "no patience": one_at_a_time("qwen", model("chat", urgency=4), model("llama", ttl_s=1), patience=0),
    "groups": in_groups(
        PAIR, SIDE, KEPT, models=("planner", model("coder", ttl_s=60), "embed", "vision", "speech", "lone")
    ),
    "two devices": with_budget(
        model("a", gib=14),
        model("b", gib=10, concurrency_limit=1),
        model("big", gib=20),
        model("d", gib=10, on=1),
        model("e", gib=8, on=1, ttl_s=30),
        gib={0: 24, 1: 12},
    ),
    "one pinned": with_budget(
        model("pinned", gib=10, pinned=True, ttl_s=10),
        model("a", gib=8),
        model("b", gib=12),
        model("c", gib=4),
        model("mystery"),
    ),
    "guesses": with_budget(
        model("pinned", gib=4, pinned=True),
        model("a", gib=8, ttl_s=30),
        model("big", estimated={gpu(0): 30 * GIB}),
        model("bigger", estimated={gpu(0): 21 * GIB}, concurrency_limit=1),
        model("small", estimated={gpu(0): 6 * GIB}),
    ),
    "cards": with_budget(
        on_any("a", 14, 0, 1, 2),
        on_any("b", 9, 0, 1, 2, concurrency_limit=1),
        on_any("wide", 30, 0, 1, 2),
        on_any("pair", 12, 0, 1, 2, count=2, ttl_s=30),
        on_any("second", 20, 1, count=1),
        on_any("mystery", None, 0, 1, 2),
        model("fixed", gib=16, on=2),
        gib={0: 24, 1: 24, 2: 24},
    ),
    "sleepers": one_at_a_time(
        model("qwen", sleep=sleeps(), concurrency_limit=1), model("llama", sleep=sleeps(ttl_s=60)), "gemma"
    ),
    "conversations": one_at_a_time(
        model("qwen", keeps_conversations=True, ttl_s=30),
        model("llama", keeps_conversations=True, concurrency_limit=1),
        model("gemma", keeps_conversations=True, sleep=sleeps()),
    ),
    "one address": replace(
        with_ram(with_budget(model("a", gib=8, sleep=sleeps()), model("b", gib=8), model("c", gib=20)), gib=20),
        groups=Groups(default=TOGETHER, exclusive={"the address h:1": (ModelName("a"), ModelName("b"))}),
    ),
    "beds": with_ram(
        with_budget(
            model("a", gib=14, sleep=sleeps()),
            model("b", gib=10, sleep=sleeps(level("1", memory={gpu(0): GIB, **ram(8)}), level("2", memory={}))),
            model("big", gib=23, sleep=sleeps(level("1", memory={gpu(0): 2 * GIB, **ram(12)}))),
            model("stiff", gib=12, ttl_s=30),
        ),
        gib=20,
    ),
}

ENDINGS = ["rest", "rest", "shutdown", "force"]
TROUBLES = ["die", "come late", "operate", "reload", "lie awake", "restart"]
ORDINARY = (
    ["be ready"] * 2
    + ["ask"] * 3
    + ["read", "flood", "hang up"]
    + ["pass time"] * 2
    + ["be gone"] * 2
    + ["end"] * 2
    + ["fall asleep", "wake", "keep alive"]
)
"""Earlier entries are drawn most often: without loads nothing else can happen."""

MORTAL = [life for life in Life if life is not Life.STOPPING]


def pick(things: Iterable[T], number: int) -> T:
    among = list(things)
    return among[number % len(among)]


class Chaos(RuleBasedStateMachine):
    """One rule for all events: Hypothesis disables whole rules at random, and without loads nothing happens."""

    rigs: tuple[str, ...] = tuple(sorted(RIGS))
    """The catalogs to choose from."""
    world: World
    rig: Catalog
    ending: str
    troubles: frozenset[str]
    """The failures that this run may inject: if all were enabled, no server would live long enough."""

    @initialize(
        rig=st.integers(0, 11),
        ending=st.sampled_from(ENDINGS),
        troubles=st.frozensets(st.sampled_from(TROUBLES)),
    )
    def open(self, rig: int, ending: str, troubles: frozenset[str]) -> None:
        self.rig, self.ending, self.troubles = RIGS[pick(self.rigs, rig)], ending, troubles
        self.world = World(self.rig)

    @rule(what=st.sampled_from(ORDINARY[:10] + TROUBLES + ORDINARY[10:]), which=st.integers(0, 11))
    def something_happens(self, what: str, which: int) -> None:
        """Apply the event to item number `which` of its candidates, or to nothing if there are none."""
        if what in ORDINARY:
            self._ordinary(what, which)
        elif what in self.troubles:
            self._trouble(what, which)

    def _ordinary(self, what: str, which: int) -> None:
        match what:
            case "ask" | "read":
                client = f"client {len(self.world.history) % 7}"
                self.world.arrive(pick(self.world.catalog.models, which), reads=what == "read", client=client)
            case "flood" if len(self.world.waiting) < PLACES:  # one at a time: each arrival checks all others
                for _ in range(PLACES + 2):
                    self.world.arrive(pick(self.world.catalog.models, which), client="flood")
            case "pass time":
                self.world.pass_time(pick([0.5, 1, 5, 10, 30, 90, 400], which))
            case "be ready" if loading := self._servers(Life.LOADING):
                self.world.become_ready(pick(loading, which))
            case "fall asleep" if saving := self._servers(Life.SAVING):
                self.world.finish_saving(pick(saving, which))
            case "wake" if restoring := self._servers(Life.RESTORING):
                self.world.finish_restoring(pick(restoring, which))
            case "fall asleep" if dozing := [each for each in self._servers(Life.DOZING) if not each.is_sleep_failed]:
                self.world.fall_asleep(pick(dozing, which))
            case "wake" if waking := [each for each in self._servers(Life.WAKING) if not each.is_sleep_failed]:
                self.world.wake_up(pick(waking, which))
            case "be gone" if stopping := self._servers(Life.STOPPING):
                self.world.end(pick(stopping, which))
            case "keep alive":
                self.world.keep_alive(pick(self.rig.models, which), pick([0.0, None, 5.0, 100.0], which // 3))
            case "hang up" if self.world.waiting:
                self.world.leave(pick(self.world.waiting, which))
            case "end" if tickets := [*self.world.leases, *self.world.orphans]:
                self.world.leave(pick(tickets, which), is_answered=which % 3 > 0)

    def _trouble(self, what: str, which: int) -> None:
        match what:
            case "die" if servers := self._servers(*MORTAL):
                self.world.end(pick(servers, which))
            case "come late" if late := self._late_ones():
                self.world.become_ready(pick(late, which))
            case "come late" if self.world.past:
                self.world.repeat(pick(self.world.past, which))
            case "lie awake" if restless := self._servers(Life.DOZING, Life.WAKING):
                self.world.fail_sleep(pick(restless, which))
            case "operate":
                self._operate(which)
            case "reload":
                self.world.change(self._edited(which))
            case "restart":
                self._restart(which)

    def _operate(self, which: int) -> None:
        """Uses the names of the first catalog, some of which may have been removed."""
        name = pick([*(server.model for server in self.world.servers.values()), *self.rig.models], which // 3)
        if which % 3 == 0:
            self.world.load(name)
        elif not self.world.is_handing_over or self.world.server_of(name):
            self.world.unload(name, force=which % 3 == 1)

    def _restart(self, which: int) -> None:
        """A handover goes on whenever its turn comes, and may be cancelled at any point."""
        world = self.world
        if not world.is_handing_over:
            world.request_handover()
        elif which % 6 == 4:
            world.cancel_handover()
        elif not world.steps:
            world.hand_over(self._edited(which // 2) if which % 2 else world.catalog)

    def _edited(self, which: int) -> Catalog:
        """Another configuration; what runs is changed most often."""
        running = [self.rig.models[server.model] for server in self.world.servers.values()]
        old, catalog = pick([*running, *self.rig.models.values()], which // 4), self.world.catalog
        restart = replace(old, recipe=replace(old.recipe, argv=(*old.recipe.argv, "--again")))
        edits = [
            self.rig,
            with_model(catalog, restart),
            with_model(catalog, replace(old, ttl_s=3.0)),
            without(catalog, old.name),
            replace(catalog, groups=pick([ONE_AT_A_TIME, TOGETHER_OR_SIDE, self.rig.groups], which // 6)),
            replace(catalog, budgets={place: size // 2 for place, size in self.rig.budgets.items()}),
        ]
        edited = pick(edits, which)
        return edited if edited.models else self.rig

    # The end

    def teardown(self) -> None:
        """Once failures stop, every request is answered, and after a shutdown nothing is left."""
        if not hasattr(self, "world") or not self.world.is_sound:
            return None
        if self.ending == "rest":
            if self.world.is_handing_over:
                self.world.cancel_handover()
            return self.world.behave()
        self.world.shut_down(force=self.ending == "force")
        return self.world.close()

    def _servers(self, *lives: Life) -> list[Server]:
        return [server for server in self.world.servers.values() if server.life in lives]

    def _late_ones(self) -> list[Server]:
        return [server for server in self._servers(Life.STOPPING) if not server.was_ready]
