"""The rule for each path, decided by what is forwarded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.relay_rig import get

from hotseat.relay.http.request_head import parse_request_head
from hotseat.relay.routing.model_name import PathKind, destination_for, find_destination
from hotseat.relay.routing.paths import IN_CONTRACT, OWN_PAGES, PathTable, needs_no_key
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination

CATALOG = catalog(spec("m"), spec("org/m"))
PATHS = PathTable(["/my/generate"])
STRICT = PathTable(is_strict=True)

NO_KEY = [("GET", "/health"), ("HEAD", "/health/"), ("GET", "/health?x=1"), ("GET", "/hotseat/ready")]
INFERENCE = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages?beta=true"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/images/edits"),
    ("POST", "/v1/rerank"),
    ("POST", "/tokenize"),
    ("POST", "/completion"),
    ("POST", "/inference"),
    ("POST", "/my/generate"),
    ("GET", "/my/generate"),
    ("POST", "/upstream/m/completion"),
    ("POST", "/upstream/org/m/v1/embeddings"),
    ("GET", "/upstream/m/props"),
    ("HEAD", "/upstream/m/health"),
    ("GET", "/props?x=/slots"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/org/m"),
    ("GET", "/running"),
    ("GET", "/swagger/"),
    ("GET", "/api/version"),
    ("GET", "/api/tags"),
    ("HEAD", "/api/ps"),
    ("POST", "/api/show"),
    ("POST", "/api/pull"),
    ("DELETE", "/api/delete"),
    ("HEAD", "/api/blobs/sha256:00"),
    ("POST", "/api/blobs/sha256:00"),
    ("GET", "/models"),
    ("HEAD", "/models/"),
    ("GET", "/models/sse"),
    ("GET", "/props?autoload=false"),
    ("GET", "/ui/models"),
    ("GET", "/upstream"),
    ("POST", "/v/chat/completions"),
]
OPERATE_TO_READ = [
    ("GET", "/slots"),
    ("GET", "/upstream/m/slots"),
    ("GET", "/upstream/m/metrics"),
    ("GET", "/upstream/m/"),
    ("GET", "/lora-adapters"),
    ("GET", "/v1/responses/7"),
    ("GET", "/anything"),
    ("GET", "/metrics"),
    ("GET", "/metrics/"),
    ("GET", "/metrics/upstreams"),
    ("HEAD", "/metrics/upstreams/"),
    ("GET", "/hotseat/events"),
    ("HEAD", "/hotseat/logs"),
    ("GET", "/hotseat/ui/"),
    ("GET", "/hotseat/"),
    ("GET", "/hotseat/fleet"),
    ("GET", "/upstream/m/hotseat/config"),
    ("GET", "/logs"),
    ("GET", "/logs/stream"),
    ("GET", "/logs/stream/org/m"),
    ("GET", "/api/events"),
    ("GET", "/api/metrics"),
    ("GET", "/api/metrics/activity?limit=5"),
    ("GET", "/v/chat/completions"),
]
OPERATE_TO_ACT = [
    ("GET", "/upstream/m/load"),
    ("GET", "/upstream/m/load/"),
    ("HEAD", "/upstream/m/load"),
    ("GET", "/upstream/org/m/load?x=1"),
    ("GET", "/upstream/nobody/load"),
    ("DELETE", "/upstream/m"),
    ("DELETE", "/upstream/m/"),
    ("DELETE", "/upstream/m?force=true"),
    ("DELETE", "/upstream/nobody"),
    ("POST", "/hotseat/reload"),
    ("POST", "/hotseat/reload/"),
    ("DELETE", "/hotseat/yield"),
    ("POST", "/hotseat/profiles/night"),
    ("DELETE", "/hotseat/requests/7"),
    ("PUT", "/hotseat/models/org/m/overrides"),
    ("PUT", "/hotseat/fleet/hosts/b/cordon"),
    ("DELETE", "/hotseat/fleet/hosts/b/drain"),
    ("POST", "/hotseat/fleet/models/org/model/move"),
    ("POST", "/slots/0?action=erase"),
    ("POST", "/props"),
    ("POST", "/lora-adapters"),
    ("POST", "/sleep"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/load"),
    ("POST", "/upstream/m/slots/0"),
    ("POST", "/sl%6fts/0"),
    ("PUT", "/upstream/m/%2Fprops"),
    ("POST", "//v1/chat/completions"),
    ("POST", "/v1/chat/completions/"),
    ("POST", "/v1/chat%2Fcompletions"),
    ("POST", "/V1/chat/completions"),
    ("POST", "/v1/chat/completions;x"),
    ("DELETE", "/v1/chat/completions"),
    ("POST", "/health"),
    ("POST", "/upstream/m/hotseat/yield"),
    ("POST", "/upstream/m/upstream/m/v1/chat/completions"),
    ("OPTIONS", "/v1/chat/completions"),
    ("PROPFIND", "/v1/models"),
    ("POST", "/models"),
    ("DELETE", "/models?model=m"),
    ("POST", "/models/load"),
    ("POST", "/models/unload/"),
    ("GET", "/unload"),
    ("HEAD", "/unload"),
    ("POST", "/api/models/unload"),
    ("POST", "/api/models/unload/org/m"),
    ("POST", "/v/slots"),
]
ADMIN = [
    ("POST", "/hotseat/"),
    ("POST", "/hotseat/anything"),
    ("POST", "/hotseat/restart"),
    ("POST", "/hotseat/fleet/hosts/b/restart"),
    ("POST", "/hotseat/fleet/hosts/b/restar%74"),
    ("POST", "/hotseat/fleet/anything"),
    ("POST", "/hotseat/ready"),
    ("DELETE", "/hotseat/models/m"),
]

ROWS = [
    (method, target, needed, is_action)
    for needed, is_action, routes in (
        (None, False, NO_KEY),
        (Role.INFERENCE, False, INFERENCE),
        (Role.OPERATE, False, OPERATE_TO_READ),
        (Role.OPERATE, True, OPERATE_TO_ACT),
        (Role.ADMIN, True, ADMIN),
    )
    for method, target in routes
]


@pytest.mark.parametrize(("method", "target", "needed", "is_action"), ROWS)
def test_what_is_forwarded_decides_the_role(method: str, target: str, needed: Role | None, is_action: bool) -> None:
    """A model server's path needs `operate` unless it is exactly in the list; actions are marked for the audit log."""
    rule = find_destination(method.encode(), target.encode(), CATALOG, PATHS).rule

    assert (rule.role, rule.is_action) == (needed, is_action)
    assert needs_no_key(method.encode(), target.partition("?")[0].encode()) is (needed is None)


@pytest.mark.parametrize(
    ("target", "takes_slot"),
    [
        ("/v1/chat/completions", True),
        ("/v1/embeddings", True),
        ("/v1/messages", True),
        ("/upstream/m/completion", True),
        ("/my/generate", True),
        ("/v1/messages/count_tokens", False),
        ("/tokenize", False),
        ("/upstream/m/apply-template", False),
        ("/slots/0?action=save", False),
        ("/anything", False),
    ],
)
def test_only_what_computes_takes_a_slot(target: str, takes_slot: bool) -> None:
    """Only paths that compute take a slot."""
    assert find_destination(b"POST", target.encode(), CATALOG, PATHS).rule.takes_slot is takes_slot


@pytest.mark.parametrize(
    ("method", "target", "goes"),
    [
        ("POST", "/v1/chat/completions", True),
        ("POST", "/tokenize", True),
        ("POST", "/my/generate", True),
        ("GET", "/v1/realtime", True),
        ("GET", "/v1/models", False),
        ("GET", "/health", False),
        ("GET", "/running", False),
        ("GET", "/metrics", False),
        ("GET", "/metrics/upstreams", False),
        ("POST", "/hotseat/yield", False),
        ("DELETE", "/upstream/m", False),
        ("POST", "/upstream/m/v1/chat/completions", False),
        ("POST", "/slots/0", False),
    ],
)
def test_a_peer_is_asked_for_inference_only(method: str, target: str, goes: bool) -> None:
    """Only listed inference paths are forwarded to peers."""
    assert PATHS.of_model(method.encode(), target.encode()).goes_to_peers is goes


@pytest.mark.parametrize("method", ["GET", "POST", "PROPFIND"])
def test_the_folder_of_our_own_paths_is_ours(method: str) -> None:
    """/hotseat/ itself is a management path, for every method."""
    assert find_destination(method.encode(), b"/hotseat/", CATALOG, PATHS).kind is PathKind.MANAGEMENT


OF_OTHER_PROGRAMS = [
    ("GET", "/api/version"),
    ("GET", "/api/version/"),
    ("GET", "/api/version?x=1"),
    ("GET", "/models"),
    ("POST", "/models"),
    ("DELETE", "/models?model=m"),
    ("POST", "/models/load"),
    ("POST", "/models/unload"),
    ("GET", "/models/sse"),
    ("GET", "/props?autoload=false"),
    ("GET", "/props?model=m&autoload=false"),
    ("GET", "/unload"),
    ("GET", "/logs"),
    ("GET", "/logs/stream"),
    ("GET", "/logs/stream/org/m"),
    ("POST", "/api/models/unload"),
    ("POST", "/api/models/unload/org%2Fm"),
    ("GET", "/api/events"),
    ("GET", "/api/metrics"),
    ("GET", "/api/metrics/activity"),
    ("GET", "/ui"),
    ("GET", "/ui/"),
    ("GET", "/ui/logs"),
    ("GET", "/upstream"),
]


@pytest.mark.parametrize(("method", "target"), OF_OTHER_PROGRAMS)
def test_the_routes_of_other_programs(method: str, target: str) -> None:
    """hotseat answers the listed routes of other programs itself; with `passthrough: strict` it forwards them."""
    here = find_destination(method.encode(), target.encode(), CATALOG, PATHS)
    strict = find_destination(method.encode(), target.encode(), CATALOG, STRICT)

    assert here.kind is PathKind.MANAGEMENT
    assert strict.kind is not PathKind.MANAGEMENT
    assert strict.target == target.encode()


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/api/unknown"),
        ("PUT", "/models/load"),
        ("GET", "/models/load"),
        ("GET", "/props"),
        ("GET", "/props?model=m"),
        ("GET", "/props?model=m&autoload=true"),
        ("POST", "/props?autoload=false"),
        ("POST", "/unload"),
        ("POST", "/api/inflight/7/cancel"),
        ("GET", "/uix"),
        ("GET", "/logs/streams"),
        ("GET", "/%6dodels"),
    ],
)
def test_what_resembles_a_route_of_another_program_is_forwarded(method: str, target: str) -> None:
    """The list has exact methods and paths; /props is the router's only if it asks as only the router is asked."""
    found = find_destination(method.encode(), target.encode(), CATALOG, PATHS)

    assert found.kind is not PathKind.MANAGEMENT
    assert found.target == target.encode()


@pytest.mark.parametrize(
    ("method", "target", "forwarded"),
    [
        ("POST", "/v/chat/completions", "/chat/completions"),
        ("POST", "/v/messages/count_tokens?x=/v/", "/messages/count_tokens?x=/v/"),
        ("GET", "/v/chat/completions", "/v/chat/completions"),
        ("POST", "/v/slots", "/v/slots"),
        ("POST", "/upstream/m/v/chat/completions", "/v/chat/completions"),
    ],
)
def test_versionless_paths_lose_their_prefix(method: str, target: str, forwarded: str) -> None:
    """llama-swap's `/v/…` reaches the model without `/v`, and only that; with `passthrough: strict` it is unchanged."""
    assert find_destination(method.encode(), target.encode(), CATALOG, PATHS).target == forwarded.encode()
    if not target.startswith("/upstream/"):
        assert find_destination(method.encode(), target.encode(), CATALOG, STRICT).target == target.encode()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/chat", "/v1/chat/completions"),
        ("/api/generate", "/v1/chat/completions"),
        ("/api/embed", "/v1/embeddings"),
        ("/api/embeddings/", "/v1/embeddings"),
        ("/api/chat?x=1", "/v1/chat/completions"),
    ],
)
def test_requests_of_ollamas_api_have_the_rights_of_what_is_forwarded(path: str, target: str) -> None:
    """They are judged by the path that the model server gets; only POST, and not with `passthrough: strict`."""
    found = find_destination(b"POST", path.encode(), CATALOG, PATHS)

    assert (found.kind, found.target) == (PathKind.MODEL_IN_BODY, target.encode())
    assert found.endpoint is not None
    assert found.rule == PATHS.of_model(b"POST", target.encode())
    for method, paths in ((b"POST", STRICT), (b"PUT", PATHS), (b"GET", PATHS)):
        other = find_destination(method, path.encode(), CATALOG, paths)
        assert (other.endpoint, other.target) == (None, path.encode())


DECISIONS = Path(__file__).parents[3] / "docs/design/decisions.md"
ROW = re.compile(r"^  \| `([A-Z]+) (\S+)`( of a browser)?[^|]*\| (\w+) \| (\w+) \|$", re.MULTILINE)
DEVIATIONS = ROW.findall(DECISIONS.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("method", "target", "browser", "usual", "strict"), DEVIATIONS)
def test_the_deviations_from_the_contract_are_those_of_the_decisions(
    method: str, target: str, browser: str, usual: str, strict: str
) -> None:
    """What hotseat answers itself or changes beyond the contract's paths, in both modes."""
    models = catalog(spec("qwen"), spec("comfyui_auto"))
    head = parse_request_head(get(target, *(["Accept: text/html"] if browser else []), method=method))

    assert done_with(destination_for(head, models, PATHS), head) == usual
    assert done_with(destination_for(head, models, STRICT), head) == strict


def done_with(destination: Destination, head: RequestHead) -> str:
    if destination.kind is PathKind.MANAGEMENT:
        return "answers"
    if destination.target != head.target:
        return "changes"
    return "looks" if destination.kind is PathKind.BARE_ADDRESS else "forwards"


def test_the_decisions_list_the_deviations() -> None:
    """Every way in which a request can end elsewhere than at the model server that the contract names."""
    assert {usual for *_, usual, _ in DEVIATIONS} == {"answers", "looks", "changes"}
    assert {target for _, target, _, _, strict in DEVIATIONS if strict != "forwards"} == {"/hotseat/queue"}
    assert {target.encode() for _, target, *_ in DEVIATIONS} >= OWN_PAGES - IN_CONTRACT
