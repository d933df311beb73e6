"""A test driver for the scheduler: `driver >> fact << command`, on a clock that moves only when told to.

`>>` sends a fact, `<<` asserts commands, exactly and in order; `nothing` asserts that there are none (left).
A command that was not asserted fails the test at the next fact or at the end, and every failure prints the whole
exchange. `invariants.check` runs after each fact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.support import invariants
from tests.support.catalogs import GIB, gpu

from hotseat.catalog.spec import NOTHING
from hotseat.errors import HotseatError, LoadFailed
from hotseat.identifiers import ANY_GPU, Address, ClientId, LaunchId, ModelName, TicketId, Upstream
from hotseat.scheduling.commands import (
    Allowance,
    Cause,
    Command,
    Confirm,
    Cut,
    Grant,
    PutToSleep,
    ReadAhead,
    Refuse,
    ReportFailure,
    ReportSwap,
    RestoreConversations,
    SaveConversations,
    StartUpstream,
    StopReading,
    StopUpstream,
    WakeAt,
    WakeUp,
)
from hotseat.scheduling.events import (
    CatalogChanged,
    ClockReached,
    ConversationsRestored,
    ConversationsSaved,
    DevicesChanged,
    Event,
    HandoverCancelled,
    HandoverRequested,
    KeepAliveChanged,
    LoadRequested,
    MemoryMeasured,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    ServerAdopted,
    ShutdownRequested,
    SleepFailed,
    SlotsLearned,
    Transfer,
    UnloadRequested,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    UpstreamUnresponsive,
    WakeFailed,
)
from hotseat.scheduling.handover import from_json, to_json
from hotseat.scheduling.handover_transitions import adoption
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Instant, MeasuredMemory, Seconds
    from hotseat.scheduling.lifecycle import Phase
    from hotseat.scheduling.view import ModelView

Sketch: TypeAlias = Callable[["SchedulerDriver"], Event]
"""A fact about the current process of a model, whichever launch that is."""

NewDriver: TypeAlias = Callable[["Catalog"], "SchedulerDriver"]
"""Makes a driver for a catalog: the fixture of tests/scheduling/conftest.py."""


class Nothing:
    """Asserts that no (further) command comes."""


nothing = Nothing()
clock = ClockReached()
handover_requested = HandoverRequested()
handover_cancelled = HandoverCancelled()


@dataclass(frozen=True)
class Expected:
    """A command of which only the named fields are compared."""

    kind: type[Command]
    cares: dict[str, Any]

    def matches(self, command: Command) -> bool:
        return type(command) is self.kind and all(self._agrees(command, field) for field in self.cares)

    def _agrees(self, command: Command, field: str) -> bool:
        wanted, found = self.cares[field], getattr(command, field)
        return isinstance(found, wanted) if isinstance(wanted, type) else bool(found == wanted)

    def __str__(self) -> str:
        return f"{self.kind.__name__}({', '.join(f'{name}={value}' for name, value in self.cares.items())})"


class SchedulerDriver:
    def __init__(self, catalog: Catalog, measured: MeasuredMemory = NOTHING) -> None:
        self.scheduler = Scheduler(catalog, measured)
        self.now: Instant = 0.0
        self.launches: dict[str, LaunchId] = {}
        self.swaps: list[ReportSwap] = []
        self.failures: list[ReportFailure] = []
        """Swap reports: they are records, so tests need not assert them."""
        self.reading: dict[str, str] = {}
        """Models whose files are read ahead, with their version: recorded, because most tests are about who runs."""
        self._last: Command | None = None
        self._unasserted: list[Command] = []
        self._exchange: list[str] = []
        self._has_other_rules = False
        """A reload or the previous process may have left models running that must leave."""
        self._successors: list[SchedulerDriver] = []

    # Time

    def at(self, now: Instant) -> SchedulerDriver:
        assert now >= self.now, f"time does not run backwards: {self.now} to {now}"
        self.now = now
        return self

    def after(self, seconds: Seconds) -> SchedulerDriver:
        return self.at(self.now + seconds)

    # The exchange

    def __rshift__(self, fact: Event | Sketch) -> SchedulerDriver:
        self.is_over()
        event = fact(self) if callable(fact) else fact
        self._exchange.append(f"{self.now:8.2f}  >> {event}")
        commands = self.scheduler.handle(event, self.now)
        self.swaps += [command for command in commands if isinstance(command, ReportSwap)]
        self.failures += [command for command in commands if isinstance(command, ReportFailure)]
        for command in commands:
            self._note_reading(command)
        noted = (ReportSwap, ReportFailure, ReadAhead, StopReading)
        self._unasserted = [command for command in commands if not isinstance(command, noted)]
        self._exchange += [f"{'':8}  << {_brief(command)}" for command in self._unasserted]
        started = [command for command in self._unasserted if isinstance(command, StartUpstream)]
        self.launches |= {command.model: command.launch for command in started}
        self._has_other_rules |= isinstance(event, CatalogChanged | ServerAdopted)
        invariants.check(self.scheduler._state, has_other_rules=self._has_other_rules)
        return self

    def _note_reading(self, command: Command) -> None:
        match command:
            case ReadAhead(model=model, spec=spec):
                assert model not in self.reading, f"{model} is read ahead twice:\n{self.exchange}"
                self.reading[model] = spec.recipe.argv[-1]
            case StopReading(model=model):
                del self.reading[model]
            case StartUpstream(model=model):
                self.reading.pop(model, None)

    def __lshift__(self, expected: Expected | Nothing) -> SchedulerDriver:
        if isinstance(expected, Nothing):
            return self.is_over()
        if not self._unasserted or not expected.matches(self._unasserted[0]):
            raise AssertionError(f"expected {expected}, not what came:\n{self.exchange}")
        self._last = self._unasserted.pop(0)
        return self

    def is_over(self) -> SchedulerDriver:
        """Fail if there are commands that the test did not assert."""
        for successor in self._successors:
            successor.is_over()
        if self._unasserted:
            raise AssertionError(f"nobody expected {_brief(self._unasserted[0])}:\n{self.exchange}")
        return self

    @property
    def exchange(self) -> str:
        return "\n".join(self._exchange)

    # Results

    @property
    def reason(self) -> str:
        """The reason of the last asserted command."""
        return str(getattr(self._last, "reason", ""))

    @property
    def error(self) -> HotseatError:
        """The error of the last asserted refusal."""
        assert isinstance(self._last, Refuse)
        return self._last.error

    @property
    def allowance(self) -> Allowance:
        """The allowance of the last asserted save or restore."""
        assert isinstance(self._last, SaveConversations | RestoreConversations)
        return self._last.allowance

    @property
    def version(self) -> str:
        """The version in the last asserted start."""
        assert isinstance(self._last, StartUpstream)
        return self._last.spec.recipe.argv[-1]

    def view(self, model: str) -> ModelView:
        return self.scheduler.view_of(ModelName(model), self.now)

    def phase(self, model: str) -> Phase:
        return self.view(model).phase

    def why(self, model: str) -> str:
        return self.view(model).why

    # Restarts

    def handed_over(
        self,
        catalog: Catalog | None = None,
        *,
        gone: Collection[str] = (),
        refused: Mapping[int, type[HotseatError]] = NOTHING,
        measured: MeasuredMemory = NOTHING,
    ) -> SchedulerDriver:
        """The driver of the next process, with what the last event of the handover causes still to be asserted.

        `gone` are models whose servers have exited; `refused` are tickets that it refuses.
        """
        self.is_over()
        self.scheduler.handle(handover_requested, self.now)
        handover = from_json(to_json(self.scheduler.handover(self.now)))
        after = SchedulerDriver(catalog or self.scheduler.catalog, measured)
        after.now, after.launches = self.now, dict(self.launches)
        after.scheduler.model_stats.adopt(self.scheduler.model_stats.export())
        upstreams = {each.launch: upstream_of(each.model) for each in handover.servers if each.model not in gone}
        for event in adoption(handover, after.scheduler.catalog, upstreams):
            timer = [each for each in after._unasserted if isinstance(each, WakeAt)]
            after._unasserted = [each for each in after._unasserted if not isinstance(each, WakeAt)]
            after >> event
            if isinstance(event, RequestArrived) and event.ticket in refused:
                after << refuses(event.ticket, refused[event.ticket])
            if not any(isinstance(each, WakeAt) for each in after._unasserted):
                after._unasserted += timer
        self._successors.append(after)
        return after

    # Common beginnings

    def with_ready(self, model: str, *tickets: int) -> SchedulerDriver:
        """Load `model` in ten seconds for these tickets, which then use it; for an operator if there are none."""
        for ticket in tickets or (0,):
            self >> (arrives(ticket, model) if tickets else load(ticket, model))
            self._unasserted.clear()
        self.after(10) >> ready(model)
        self._unasserted.clear()
        return self

    def with_backoff(self, model: str) -> SchedulerDriver:
        """Make `model` fail to start twice in a row and back off for two seconds."""
        for fact in (arrives(901, model), failed(model), arrives(902, model), failed(model)):
            self >> fact
            self._unasserted.clear()
        return self

    def with_sleep_stats(self, model: str, other: str, sleep_s: Seconds = 1, wake_s: Seconds = 2) -> SchedulerDriver:
        """Put `model`, which is ready, to sleep to free memory for `other`, and wake it again, with these durations."""
        for fact, seconds in (
            (load(0, other), sleep_s),
            (asleep(model), 10),
            (ready(other), 100),
            (load(0, model), 1),
            (exited(other), wake_s),
            (awake(model), 100),
        ):
            self >> fact
            self._unasserted.clear()
            self.after(seconds)
        return self


def _brief(command: Command) -> str:
    shown = [name for name in command.__struct_fields__ if name not in ("spec", "upstream")]
    return f"{type(command).__name__}({', '.join(f'{name}={getattr(command, name)!r}' for name in shown)})"


# Facts


def arrives(
    ticket: int, model: str, client: str = "someone", *, reads: bool = False, is_batch: bool = False
) -> RequestArrived:
    return RequestArrived(TicketId(ticket), ModelName(model), ClientId(client), not reads, is_batch=is_batch)


def leaves(ticket: int, *, is_answered: bool = True) -> RequestLeft:
    return RequestLeft(TicketId(ticket), is_answered)


def load(ticket: int, model: str) -> LoadRequested:
    return LoadRequested(TicketId(ticket), ModelName(model), ClientId("operator"))


def unload(ticket: int, model: str, *, force: bool = False) -> UnloadRequested:
    return UnloadRequested(TicketId(ticket), ModelName(model), force)


def keep_alive(model: str, seconds: float | None) -> KeepAliveChanged:
    return KeepAliveChanged(ModelName(model), seconds)


def adopted(spec: ModelSpec, launch: int, **known: Any) -> ServerAdopted:
    return ServerAdopted(spec.name, LaunchId(launch), spec, upstream_of(spec.name), **known)


def shutdown(*, force: bool = False) -> ShutdownRequested:
    return ShutdownRequested(force)


def changed(catalog: Catalog) -> CatalogChanged:
    return CatalogChanged(catalog)


def ready(model: str, launch: int | None = None) -> Sketch:
    return lambda driver: UpstreamReady(ModelName(model), _launch(driver, model, launch), upstream_of(model))


def slots_learned(model: str, total_slots: int) -> Sketch:
    return lambda driver: SlotsLearned(ModelName(model), _launch(driver, model, None), total_slots)


def measured(model: str, gib: float, on: int = 0) -> Sketch:
    memory = {gpu(on): int(gib * GIB)}
    return lambda driver: MemoryMeasured(ModelName(model), _launch(driver, model, None), memory)


def measured_on_cards(model: str, gib: float) -> Sketch:
    """As the monitor reports a model whose cards are chosen: their memory together."""
    memory = {ANY_GPU: int(gib * GIB)}
    return lambda driver: MemoryMeasured(ModelName(model), _launch(driver, model, None), memory)


def left_by_others(gib: float, on: int = 0) -> DevicesChanged:
    """The budget that other programs leave on a GPU."""
    return DevicesChanged({gpu(on): int(gib * GIB)})


def failed(model: str, launch: int | None = None, *, may_pass: bool = True) -> Sketch:
    error = LoadFailed(f"{model} exited with code 1", may_pass=may_pass)
    return lambda driver: UpstreamFailed(ModelName(model), _launch(driver, model, launch), error)


def exited(model: str, launch: int | None = None, output: tuple[str, ...] = ()) -> Sketch:
    how = "was killed by SIGKILL"
    return lambda driver: UpstreamExited(ModelName(model), _launch(driver, model, launch), how, output)


def unresponsive(model: str, launch: int | None = None) -> Sketch:
    return lambda driver: UpstreamUnresponsive(ModelName(model), _launch(driver, model, launch), 30.0)


def asleep(model: str) -> Sketch:
    return lambda driver: UpstreamAsleep(ModelName(model), _launch(driver, model, None))


def awake(model: str) -> Sketch:
    return lambda driver: UpstreamAwake(ModelName(model), _launch(driver, model, None))


def cannot_sleep(model: str) -> Sketch:
    return lambda driver: SleepFailed(
        ModelName(model), _launch(driver, model, None), "POST /sleep was answered with 500"
    )


def cannot_wake(model: str) -> Sketch:
    return lambda driver: WakeFailed(
        ModelName(model), _launch(driver, model, None), "it had not woken after 120 seconds"
    )


def saved(model: str, *tokens: int) -> Sketch:
    """Conversations of so many tokens, 4 kB and 10 µs each."""
    return lambda driver: ConversationsSaved(ModelName(model), _launch(driver, model, None), _transfers(tokens))


def restored(model: str, *tokens: int) -> Sketch:
    return lambda driver: ConversationsRestored(ModelName(model), _launch(driver, model, None), _transfers(tokens))


def _transfers(tokens: tuple[int, ...]) -> tuple[Transfer, ...]:
    return tuple(Transfer(each, 4000 * each, 1e-5 * each) for each in tokens)


def prompt(ticket: int, computed: int, cached: int = 0, took_s: float = 0.0) -> PromptProcessed:
    return PromptProcessed(TicketId(ticket), computed, cached, took_s)


def _launch(driver: SchedulerDriver, model: str, launch: int | None) -> LaunchId:
    return driver.launches[model] if launch is None else LaunchId(launch)


def upstream_of(model: str) -> Upstream:
    return Upstream(Address(f"{model}.test", 80), pid=1)


# Commands


def grants(ticket: int, model: str | None = None, reason: str | None = None) -> Expected:
    return _expected(Grant, ticket=ticket, model=model, reason=reason)


def confirms(ticket: int, model: str | None = None) -> Expected:
    return _expected(Confirm, ticket=ticket, model=model)


def refuses(ticket: int, error: type[HotseatError] = HotseatError) -> Expected:
    return _expected(Refuse, ticket=ticket, error=error)


def cuts(ticket: int) -> Expected:
    return _expected(Cut, ticket=ticket)


def starts(model: str, launch: int | None = None) -> Expected:
    return _expected(StartUpstream, model=model, launch=launch)


def starts_on(model: str, *gpus: int) -> Expected:
    """On exactly these cards; without any, its server decides."""
    return _expected(StartUpstream, model=model, gpus=tuple(map(gpu, gpus)))


def stops(model: str, launch: int | None = None, cause: Cause | None = None, within: Seconds | None = None) -> Expected:
    """`within` is the time after which the server is killed."""
    return _expected(StopUpstream, model=model, launch=launch, cause=cause, unload_timeout_s=within)


def puts_to_sleep(model: str, level: SleepLevel | None = None) -> Expected:
    return _expected(PutToSleep, model=model, level=level)


def saves(model: str) -> Expected:
    return _expected(SaveConversations, model=model)


def restores(model: str) -> Expected:
    return _expected(RestoreConversations, model=model)


def wakes(model: str) -> Expected:
    return _expected(WakeUp, model=model)


def wakes_at(when: Instant) -> Expected:
    return _expected(WakeAt, when=when)


def _expected(kind: type[Command], **cares: Any) -> Expected:
    return Expected(kind, {name: value for name, value in cares.items() if value is not None})
