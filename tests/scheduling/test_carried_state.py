"""Each field of the scheduler's state reaches the next process, or there is a reason why it need not."""

from __future__ import annotations

from dataclasses import fields

from tests.support.catalogs import one_at_a_time

from hotseat.model_servers.adoption import ServerDescription
from hotseat.scheduling.conversation_state import ConversationState
from hotseat.scheduling.handover import Departure, Failure, Handover, HeldLease, LevelRecord, ServerRecord
from hotseat.scheduling.state import ModelState, State

CARRIED = {
    "State.available": "Handover.available",
    "State.queue": "Handover.waiting",
    "State.leases": "ServerRecord.leases",
    "State.postponed": "Handover.unloads",
    "State.yields": "Handover.yields",
    "State._launches": "Handover.last_launch",
    "State.failed": "Handover.failed",
    "State.active": "Handover.servers",
    "ModelState.spec": "ServerRecord.spec",
    "ModelState.phase": "Handover.servers",
    "ModelState.since": "ServerRecord.phase_s",
    "ModelState.launch": "ServerRecord.launch",
    "ModelState.upstream": "ServerDescription.address",
    "ModelState.sleep_level": "ServerRecord.level",
    "ModelState.failed_levels": "Failure.sleep_levels",
    "ModelState.fell_asleep_in_s": "ServerRecord.fell_asleep_in_s",
    "ModelState.gpus": "ServerRecord.gpus",
    "ModelState.given": "ServerRecord.given",
    "ModelState.leases": "ServerRecord.leases",
    "ModelState.slots_used": "HeldLease.takes_slot",
    "ModelState.slots_reported": "ServerRecord.slots_reported",
    "ModelState.measured": "ServerRecord.measured",
    "ModelState.served": "ServerRecord.served",
    "ModelState.ready_at": "ServerRecord.ready_s",
    "ModelState.idle_since": "ServerRecord.idle_s",
    "ModelState.keep_alive": "ServerRecord.keep_alive_s",
    "ModelState.claimed_at": "ServerRecord.claimed_s",
    "ModelState.evicted_at": "Handover.evictions",
    "ModelState.cut_at": "Departure.cut_in_s",
    "ModelState.cause": "Departure.cause",
    "ModelState.unload_tickets": "Handover.unloads",
    "ModelState.has_answered": "ServerRecord.has_answered",
    "ModelState.failures": "Failure.failures",
    "ModelState.may_pass": "Failure.may_pass",
    "ModelState.retry_at": "Failure.retry_in_s",
    "ModelState.last_error": "Failure.last_error",
    "ConversationState.has_saved": "Handover.saved",
    "ConversationState.useless_restores": "Failure.useless_restores",
    "ConversationState.keeps_none_because": "Failure.keeps_none_because",
}
LEARNED = "it is a part of learned.json, or of the figures of a recipe"
DERIVED = "it follows from other fields"
NO_STEP = "servers are handed over only while no step is in progress"
RULE = "the next process sets it whenever it adopts a server"
NOT_CARRIED = {
    "State.catalog": "the next process reads the configuration; overrides, profile and budgets are facts of their own",
    "State.limits": DERIVED,
    "State.model_stats": LEARNED,
    "State.models": "they are those of the catalog and of the servers",
    "State._added": DERIVED,
    "State.claims": DERIVED,
    "State.card_choices": DERIVED,
    "State.read_ahead": "reading ahead begins anew, and what was read is still in the page cache",
    "State.is_closing": "a shutdown is not interrupted by a restart",
    "State.is_handing_over": "it ends with the handover",
    "State.may_exceed_memory": RULE,
    "State.has_other_rules": RULE,
    "ModelState.number": DERIVED,
    "ModelState.why": "it says that it was adopted; the reasons of a departure and of a failure are carried",
    "ModelState.stats": LEARNED,
    "ModelState.next_memory": LEARNED,
    "ModelState.ends_asleep": NO_STEP,
    "ModelState.conversations": "its fields are listed here",
    "ModelState.is_adopted": RULE,
    "ModelState.loads_alone": NO_STEP,
    "ModelState.evicted_for_it": "it only explains why the next load waited",
    "ConversationState.is_saving": NO_STEP,
    "ConversationState.restored": "one start without a verdict; the next one is judged",
    "ConversationState.longest": "an adopted server counts as one that may have had long conversations",
    "ConversationState.reported": "an adopted server counts as one that may have had long conversations",
    "ConversationState.has_unreported": RULE,
}


def test_each_field_of_the_state_is_carried_or_need_not_be() -> None:
    """Whoever adds a field must decide which."""
    records = {each.__name__: each.__struct_fields__ for each in (ModelState, ConversationState)}
    records["State"] = tuple(vars(State(one_at_a_time("qwen"))))
    found = {f"{record}.{name}" for record, names in records.items() for name in names}

    assert found == CARRIED.keys() | NOT_CARRIED.keys()
    assert not CARRIED.keys() & NOT_CARRIED.keys()


def test_each_field_that_carries_one_exists() -> None:
    """In the handover, in a record of it, or in what the guard is told."""
    structs = (Handover, ServerRecord, Failure, Departure, HeldLease, LevelRecord)
    known = {f"{struct.__name__}.{name}" for struct in structs for name in struct.__struct_fields__}
    known |= {f"ServerDescription.{field.name}" for field in fields(ServerDescription)}

    assert {*CARRIED.values()} <= known
