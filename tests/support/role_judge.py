"""Checks that the result of a request is one that the oracle allows, and that no secret leaked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from tests.support.role_oracle import ANY, Forwarded, Own, Refused
from tests.support.role_reading import body_names, names_in_any_case, secrets
from tests.support.role_world import KEYS, PEERS_SECRET

if TYPE_CHECKING:
    from tests.support.recording_server import Received
    from tests.support.role_oracle import Oracle, Outcome
    from tests.support.role_reading import Request
    from tests.support.role_world import Seen

LISTS = {
    "/v1/models": ("data", "id"),
    "/models": ("data", "id"),
    "/api/tags": ("models", "name"),
    "/api/ps": ("models", "name"),
}
"""Where each list has its rows, and each row its name."""
OURS = frozenset(str(key["key"]) for key in KEYS)


def problem(oracle: Oracle, request: Request, seen: Seen) -> str:
    """What is wrong, in a sentence; empty if nothing is."""
    if wrong := misplaced_secret(seen) or shown_too_much(oracle, request, seen):
        return wrong
    outcomes = oracle.outcomes(request)
    if any(fits(outcome, request, seen) for outcome in outcomes):
        return ""
    return f"{kind_of(seen)}: expected one of {list(dict.fromkeys(map(str, outcomes)))}"


def kind_of(seen: Seen) -> str:
    servers = [received.server for received in seen.received]
    return f"{seen.status} from {servers} started={seen.started} stopped={seen.stopped}"


def fits(outcome: Outcome, request: Request, seen: Seen) -> bool:
    match outcome:
        case Refused(statuses):
            return seen.status in statuses and not (passed_on(seen) or seen.started or seen.stopped or changed(seen))
        case Own(starts, stops):
            return is_own(seen) and set(seen.started) <= {starts} and (stops == ANY or set(seen.stopped) <= {stops})
        case Forwarded():
            return is_forwarded(outcome, request, seen)


def passed_on(seen: Seen) -> list[Received]:
    return [received for received in seen.received if received.server != "hotseat"]


def changed(seen: Seen) -> bool:
    """Whether the management API received and accepted a change."""
    return (
        any(received.request.method not in ("GET", "HEAD", "OPTIONS") for received in seen.received)
        and seen.status < 400
    )


def is_own(seen: Seen) -> bool:
    return not passed_on(seen) and seen.status not in (401, 403) and len(seen.received) <= 1


def is_forwarded(outcome: Forwarded, request: Request, seen: Seen) -> bool:
    if len(seen.received) != 1 or seen.status not in (200, 101):
        return False
    (received,) = seen.received
    sent = names_sent(received.request, with_query=outcome.must_be_named)
    return (
        not seen.stopped
        and set(seen.started) <= {outcome.starts}
        and received.server == outcome.server
        and received.request.method == request.method
        and is_same_target(received.request, outcome)
        and set(sent) <= outcome.names
        and (bool(sent) or not outcome.must_be_named)
    )


def is_same_target(received: Request, outcome: Forwarded) -> bool:
    """Compares bytes; the query sent to a peer may be changed or removed."""
    if not outcome.must_be_named:
        return received.target == outcome.target
    return received.path == outcome.target.partition("?")[0]


def names_sent(received: Request, *, with_query: bool) -> list[str]:
    names = body_names(received)[0]
    if with_query:
        names += [value for key, value in parse_qsl(received.query, keep_blank_values=True) if key == "model"]
        names += names_in_any_case(received.body)
        names += ["one that we cannot read"] * len(received.values("content-encoding"))
    return names


def misplaced_secret(seen: Seen) -> str:
    """hotseat's keys are never forwarded, and a peer's key only to that peer, in place of whatever the client sent."""
    for received in passed_on(seen):
        said = str(received.request)
        if any(secret in said for secret in OURS):
            return f"our key reached {received.server}"
        if PEERS_SECRET in said and received.server != "farm":
            return f"the peer's key reached {received.server}"
        if received.server == "farm" and set(secrets(received.request)) != {PEERS_SECRET}:
            return f"the peer was sent {secrets(received.request)} in place of its key"
    return ""


def shown_too_much(oracle: Oracle, request: Request, seen: Seen) -> str:
    """The list of models must show only those that the key may use."""
    holder, path = oracle.holder(request), request.path.rstrip("/")
    if path not in LISTS or seen.status != 200 or passed_on(seen) or not seen.body or not holder:
        return ""
    rows, name = LISTS[path]
    listed = [entry[name].removesuffix(":latest") for entry in json.loads(seen.body)[rows]]
    foreign = [name for name in listed if not oracle.book.may_ask(holder, name)]
    return f"the list shows {foreign}" if foreign else ""
