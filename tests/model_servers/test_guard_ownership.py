"""Whom the guard obeys, in a world of hotseat processes that offer, withdraw, take, connect and die at any step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.support.guard_world import GRACE_S, Broken, GuardChaos, GuardWorld

from hotseat.model_servers.guard_messages import VERSION
from hotseat.model_servers.guard_ownership import (
    Close,
    EndAll,
    Ending,
    HandOver,
    Offered,
    Orphaned,
    Owned,
    Ownership,
    Tell,
)

if TYPE_CHECKING:
    from hotseat.model_servers.guard_ownership import Effect

SEARCH = settings(
    max_examples=2000,
    stateful_step_count=40,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
OWNER, CANDIDATE, OTHER = 0, 1, 2


@pytest.mark.longer
@pytest.mark.parametrize("grace_s", [0.0, GRACE_S])
def test_at_every_moment_at_most_one_process_is_obeyed(grace_s: float) -> None:
    """Nothing ends while it has an owner, and everything ends if nobody takes it in time."""
    run_state_machine_as_test(type("Chaos", (GuardChaos,), {"grace_s": grace_s}))


def test_the_candidate_takes_what_was_offered() -> None:
    """The former owner learns it and is not obeyed any more."""
    ownership = Ownership(OWNER)
    ownership.offer(OWNER, CANDIDATE)
    effects = ownership.take(CANDIDATE, VERSION)

    assert effects == [Tell(OWNER, {"fact": "taken"}), Close(OWNER), HandOver(CANDIDATE, was_orphaned=False)]
    assert ownership.obeys(CANDIDATE)
    assert not ownership.obeys(OWNER)


def test_the_owner_dies_before_its_candidate_has_taken() -> None:
    """With a grace the candidate has time to; without one everything ends."""
    for grace_s, after in ((GRACE_S, Orphaned(GRACE_S, CANDIDATE)), (0.0, Ending())):
        ownership = Ownership(OWNER)
        ownership.keep_for(OWNER, grace_s)
        ownership.offer(OWNER, CANDIDATE)
        ownership.close(OWNER, 0.0)

        assert ownership.state == after


def test_only_one_candidate_of_an_orphan_waits_for_an_answer() -> None:
    """The next one is accepted when the first has gone."""
    ownership = Ownership(OWNER)
    ownership.keep_for(OWNER, GRACE_S)
    ownership.close(OWNER, 0.0)
    ownership.connect(CANDIDATE)
    is_open_to_others = ownership.accepts
    ownership.close(CANDIDATE, 1.0)

    assert not is_open_to_others
    assert ownership.accepts
    assert ownership.pass_time(GRACE_S, is_reachable=True) == [EndAll()]


def test_a_candidate_that_was_refused_does_not_keep_orphans() -> None:
    """They end at once if nobody can reach them, and the world says that they may."""
    world = GuardWorld(GRACE_S)
    owner, candidate = world.sockets[0], world.socket_of(1)
    owner.unread, candidate.unread = [("offer", candidate)], [("take", VERSION + 1)]
    owner.is_cut, world.is_reachable = True, False
    for number in (owner.number, candidate.number, owner.number):
        world.read(number)
    world.pass_time(1.0)

    assert candidate.is_closed
    assert world.is_ended


# What is wrong with each, in its name.


def a_withdrawn_candidate_can_still_take(ownership: Ownership, by: int) -> list[Effect]:
    return [Tell(by, {"fact": "withdrawn"})] if ownership.obeys(by) else []


def whoever_connects_is_offered_the_servers(ownership: Ownership, connection: int) -> list[Effect]:
    if isinstance(ownership.state, Owned):
        ownership.state = Offered(ownership.state.owner, connection)
        return []
    return CONNECT(ownership, connection)


def a_dead_candidate_stays_the_candidate(ownership: Ownership, connection: int) -> None:
    return None


def a_former_owner_is_still_obeyed(ownership: Ownership, connection: int) -> bool:
    return OBEYS(ownership, connection) or (connection == OWNER and not isinstance(ownership.state, Ending))


def orphans_are_kept_for_ever(ownership: Ownership, now: float, is_reachable: bool) -> list[Effect]:
    return []


def the_grace_goes_on_after_a_take(ownership: Ownership, now: float, is_reachable: bool) -> list[Effect]:
    is_over = now >= GRACE_S and not isinstance(ownership.state, Ending)
    return ownership._end() if is_over else PASS_TIME(ownership, now, is_reachable)


def nothing_is_kept_for_anybody(ownership: Ownership, connection: int, now: float) -> list[Effect]:
    return [Close(connection), *ownership._end()] if ownership.obeys(connection) else CLOSE(ownership, connection, now)


def any_version_will_do(ownership: Ownership, by: int, version: object) -> list[Effect]:
    return TAKE(ownership, by, VERSION)


def a_replaced_candidate_waits_for_ever(ownership: Ownership) -> list[Effect]:
    return []


def the_former_owner_is_not_informed(ownership: Ownership, by: int, version: object) -> list[Effect]:
    return [effect for effect in TAKE(ownership, by, version) if effect != Tell(OWNER, {"fact": "taken"})]


def anybody_can_offer(ownership: Ownership, by: int, candidate: int) -> list[Effect]:
    match ownership.state:
        case Owned(owner) | Offered(owner, _):
            return OFFER(ownership, owner, candidate)
    return OFFER(ownership, by, candidate)


OBEYS, CONNECT, PASS_TIME = Ownership.obeys, Ownership.connect, Ownership.pass_time
CLOSE, TAKE, OFFER = Ownership.close, Ownership.take, Ownership.offer

PLANTED: list[tuple[str, Any]] = [
    ("withdraw", a_withdrawn_candidate_can_still_take),
    ("connect", whoever_connects_is_offered_the_servers),
    ("_leave", a_dead_candidate_stays_the_candidate),
    ("obeys", a_former_owner_is_still_obeyed),
    ("pass_time", orphans_are_kept_for_ever),
    ("pass_time", the_grace_goes_on_after_a_take),
    ("close", nothing_is_kept_for_anybody),
    ("take", any_version_will_do),
    ("_close_candidate", a_replaced_candidate_waits_for_ever),
    ("take", the_former_owner_is_not_informed),
    ("offer", anybody_can_offer),
]


@pytest.mark.deep
@pytest.mark.uncounted
@pytest.mark.parametrize(("name", "bug"), PLANTED, ids=[bug.__name__ for _, bug in PLANTED])
def test_the_world_finds_a_planted_bug(name: str, bug: Any) -> None:
    """The world judges by its own books: it finds the bug without looking into the state."""
    chaos = seed(4)(type("SeededChaos", (GuardChaos,), {"grace_s": GRACE_S}))
    with patch.object(Ownership, name, bug), pytest.raises(Broken):
        run_state_machine_as_test(chaos, settings=SEARCH)
