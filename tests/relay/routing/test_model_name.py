"""Which model a request names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.too_deep import TOO_DEEP

from hotseat.catalog.catalog import Catalog
from hotseat.catalog.named_models import Profile, RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges, LaunchRecipe, ModelSpec
from hotseat.errors import ClientError, HotseatError, UnknownModel
from hotseat.identifiers import Address, ModelName
from hotseat.relay.http.json_bodies import MOST_MEMBERS, SMALL, rewrite_json
from hotseat.relay.routing.model_name import (
    Destination,
    PathKind,
    find_destination,
    model_and_members,
    model_in_json,
    name_for_v1,
    with_model_in_query,
)
from hotseat.relay.routing.paths import rule_of_ours

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.catalog.named_models import NamedModel

RECIPE = LaunchRecipe(argv=("server",), proxy="http://127.0.0.1:${PORT}")


def model(name: str, *aliases: str) -> ModelSpec:
    return ModelSpec(ModelName(name), RECIPE, aliases=aliases)


def catalog(*specs: ModelSpec, default: str | None = None, **more: Any) -> Catalog:
    named = ModelName(default) if default else None
    return Catalog({spec.name: spec for spec in specs}, default_model=named, **more)


ALPHA, ORG, DEEP = model("alpha", "al", "first/of all"), model("org/model"), model("org/model/v1")
CHOICE = Selector("router", Strategy.PIN, ("alpha",))
FAR = RemoteModel(ModelName("peer/far"), "peer", Address("10.0.0.1", 80), BodyChanges("far"))
CROWD = catalog(ALPHA, ORG, DEEP, model("grün:7b"), selectors={"router": CHOICE}, remotes={"peer/far": FAR})


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/health"),
        ("HEAD", "/health"),
        ("GET", "/health?verbose=1"),
        ("GET", "/running"),
        ("GET", "/swagger"),
        ("GET", "/metrics"),
        ("GET", "/metrics/upstreams"),
        ("GET", "/v1/models"),
        ("HEAD", "/v1/models"),
        ("GET", "/v1/models?model=alpha"),
        ("GET", "/v1/models/org/model"),
        ("GET", "/v1/models/org%2Fmodel"),
        ("GET", "/v1/models/nobody"),
        ("GET", "/hotseat/events"),
        ("POST", "/hotseat/reload"),
        ("DELETE", "/hotseat/anything/at/all"),
        ("GET", "/hotseat/.well-known"),
        ("GET", "/upstream/alpha/load"),
        ("GET", "/upstream/alpha/load?wait=1"),
        ("GET", "/upstream/al/load"),
        ("GET", "/upstream/org/model/load"),
        ("GET", "/upstream/org%2Fmodel/load"),
        ("GET", "/upstream/nobody/load"),
        ("GET", "/upstream/no/body/load"),
        ("DELETE", "/upstream/alpha"),
        ("DELETE", "/upstream/alpha?force=true"),
        ("DELETE", "/upstream/org/model"),
        ("DELETE", "/upstream/org%2fmodel"),
        ("DELETE", "/upstream/nobody"),
        ("DELETE", "/upstream/no/body"),
    ],
)
def test_our_own_pages_keep_their_target(method: str, target: str) -> None:
    """Management paths keep their target as received."""
    kind = find_destination(method.encode(), target.encode(), CROWD)

    assert (kind.kind, kind.target) == (PathKind.MANAGEMENT, target.encode())


@pytest.mark.parametrize(
    ("method", "target", "meant"),
    [
        ("GET", "/health/", "/health"),
        ("GET", "/v1/models/?x=1", "/v1/models?x=1"),
        ("GET", "/v1/models/org/model/", "/v1/models/org/model"),
        ("POST", "/hotseat/reload/", "/hotseat/reload"),
        ("GET", "/hotseat/ui/", "/hotseat/ui/"),
        ("GET", "/upstream/alpha/load/", "/upstream/alpha/load"),
        ("HEAD", "/upstream/alpha/load", "/upstream/alpha/load"),
        ("DELETE", "/upstream/alpha/", "/upstream/alpha"),
        ("DELETE", "/upstream/org/model/?force=true", "/upstream/org/model?force=true"),
        ("DELETE", "/upstream/nobody/", "/upstream/nobody"),
    ],
)
def test_a_slash_at_the_end_of_a_management_path_changes_nothing(method: str, target: str, meant: str) -> None:
    """A trailing slash on a management path is removed, except for the dashboard's pages."""
    kind = find_destination(method.encode(), target.encode(), CROWD)

    assert (kind.kind, kind.target) == (PathKind.MANAGEMENT, meant.encode())
    assert kind.rule == rule_of_ours(method.encode(), meant.partition("?")[0].encode())


def test_an_operator_names_models_whatever_profile_is_active() -> None:
    """Loads and unloads use the model's own name; other requests use the active profile."""
    pins = {"alpha": "org/model", "al": "", "router": "org/model", "peer/far": ""}
    switched = replace(CROWD, profiles={"night": Profile("night", "", pins)}, active_profile="night")

    assert find_destination(b"DELETE", b"/upstream/alpha", switched).named_model == ALPHA
    assert find_destination(b"GET", b"/upstream/al/load", switched).named_model == ALPHA
    assert find_destination(b"DELETE", b"/upstream/router", switched).named_model == CHOICE
    assert find_destination(b"DELETE", b"/upstream/peer/far", switched).named_model == FAR
    assert find_destination(b"POST", b"/upstream/alpha/x", switched).named_model != ALPHA


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
@pytest.mark.parametrize("path", ["/v1/things", "/things"])
def test_a_body_that_can_be_read_is_asked_before_the_query(method: str, path: str) -> None:
    """The body is searched first, for every method; the query is the fallback."""
    kind = find_destination(method.encode(), f"{path}?model=nobody".encode(), CROWD, has_readable_body=True)

    assert kind == Destination(PathKind.MODEL_IN_BODY, f"{path}?model=nobody".encode(), named="nobody")


@pytest.mark.parametrize(
    ("target", "needs_one", "sent"),
    [
        ("/v1/x", False, "/v1/x"),
        ("/v1/x?a=1", False, "/v1/x?a=1"),
        ("/v1/x", True, "/v1/x?model=a%2Fb"),
        ("/v1/x?a=1", True, "/v1/x?a=1&model=a%2Fb"),
        ("/v1/x?model=other&a=%20&mod%65l=third&model", False, "/v1/x?a=%20&model=a%2Fb"),
    ],
)
def test_a_query_names_one_model(target: str, needs_one: bool, sent: str) -> None:
    """The query names the model once, whatever names it had before."""
    assert with_model_in_query(target.encode(), "a/b", needs_one=needs_one) == sent.encode()


@pytest.mark.parametrize(
    ("target", "spec", "forwarded"),
    [
        ("/upstream/alpha/slots", ALPHA, "/slots"),
        ("/upstream/al/slots", ALPHA, "/slots"),
        ("/upstream/%61lpha/slots", ALPHA, "/slots"),
        ("/upstream/first/of%20all/slots", ALPHA, "/slots"),
        ("/upstream/first%2Fof%20all/slots", ALPHA, "/slots"),
        ("/upstream/alpha", ALPHA, "/"),
        ("/upstream/alpha/", ALPHA, "/"),
        ("/upstream/alpha?x=1", ALPHA, "/?x=1"),
        ("/upstream/alpha/?x=1", ALPHA, "/?x=1"),
        ("/upstream/alpha//double//slash", ALPHA, "//double//slash"),
        ("/upstream/alpha/echo/a%2Fb/c%20d?x=1&x=%20", ALPHA, "/echo/a%2Fb/c%20d?x=1&x=%20"),
        ("/upstream/alpha/a?path=/../%5c&q=%00", ALPHA, "/a?path=/../%5c&q=%00"),
        ("/upstream/alpha/.hidden/..a/a../...", ALPHA, "/.hidden/..a/a../..."),
        ("/upstream/alpha/load/more", ALPHA, "/load/more"),
        ("/upstream/alpha/lo%61d", ALPHA, "/lo%61d"),
        ("/upstream/alpha?path=/upstream/org/model", ALPHA, "/?path=/upstream/org/model"),
        ("/upstream/org/model/x?y=1", ORG, "/x?y=1"),
        ("/upstream/org%2Fmodel/x?y=1", ORG, "/x?y=1"),
        ("/upstream/org/model/v1/chat", DEEP, "/chat"),
        ("/upstream/org/model/v2/chat", ORG, "/v2/chat"),
        ("/upstream/alpha/" + "a/" * 2000, ALPHA, "/" + "a/" * 2000),
        ("/props?model=alpha", ALPHA, "/props?model=alpha"),
        ("/props?a=b&model=org/model", ORG, "/props?a=b&model=org/model"),
        ("/props?model=org%2Fmodel", ORG, "/props?model=org%2Fmodel"),
        ("/props?model=first/of+all", ALPHA, "/props?model=first/of+all"),
        ("/props?model=&model=alpha", ALPHA, "/props?model=&model=alpha"),
        ("/v1/chat/completions?model=alpha", ALPHA, "/v1/chat/completions?model=alpha"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH"])
def test_a_model_in_the_url(method: str, target: str, spec: ModelSpec, forwarded: str) -> None:
    """The URL names a model by name or alias, plain or encoded, the longest match first."""
    kind = find_destination(method.encode(), target.encode(), CROWD)

    assert kind == Destination(PathKind.MODEL_IN_URL, forwarded.encode(), spec)


@pytest.mark.parametrize("path", ["/slots/1", "/v1/files/x", "/load", "//"])
def test_a_delete_below_a_model_is_the_upstreams(path: str) -> None:
    """DELETE of a path below a model is forwarded."""
    kind = find_destination(b"DELETE", f"/upstream/alpha{path}".encode(), CROWD)

    assert kind == Destination(PathKind.MODEL_IN_URL, path.encode(), ALPHA)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/anything?remodel=alpha"),
        ("POST", "/v1/models"),
        ("POST", "/completion"),
        ("POST", "/health"),
        ("PUT", "/echo"),
        ("PATCH", "/echo/a%2Fb/%C3%BC//d;p=1?q=%26&q=+&empty=&flag"),
        ("POST", "/upstream"),
    ],
)
def test_a_model_in_the_body(method: str, target: str) -> None:
    """A request that may carry a body and names no model in its URL is decided by the body."""
    kind = find_destination(method.encode(), target.encode(), CROWD)

    assert kind == Destination(PathKind.MODEL_IN_BODY, target.encode())


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/"),
        ("GET", "/slots"),
        ("GET", "/slots?model="),
        ("DELETE", "/health"),
        ("GET", "/health//"),
        ("GET", "/hotseat"),
        ("DELETE", "/upstream"),
        ("GET", "/v1/files"),
        ("PUT", "/v1/files"),
        ("PATCH", "/v1/files"),
        ("DELETE", "/v1/models/alpha"),
        ("OPTIONS", "/v1/chat/completions"),
        ("GET", "/%68otseat/events"),
    ],
)
def test_a_request_that_names_nobody_starts_nobody(method: str, target: str) -> None:
    """A request without a model goes to the running model with its target unchanged."""
    kind = find_destination(method.encode(), target.encode(), CROWD)

    assert kind == Destination(
        PathKind.RUNNING_MODEL,
        target.encode(),
    )


@pytest.mark.parametrize(
    "path",
    [
        "/upstream/alpha/../../etc",
        "/upstream/alpha/..",
        "/upstream/alpha/.",
        "/upstream/alpha/./x",
        "/upstream/alpha/%2e%2e%2fetc",
        "/upstream/alpha/%2E%2E/etc",
        "/upstream/alpha/.%2e/etc",
        "/upstream/alpha/%2e./etc",
        "/upstream/alpha/x%2f../etc",
        "/upstream/alpha/x%2F%2E",
        "/upstream/alpha/..;a=b/etc",
        "/upstream/alpha/..;",
        "/upstream/alpha/..%2fetc",
        "/upstream/../hotseat/events",
        "/hotseat/ui/../events",
        "/v1/../health",
        "/..",
        "/a\\b",
        "/a%5cb",
        "/a%5Cb",
        "/a%00b",
        "/a%0d%0aX: y",
        "/a%1f",
        "/a%7f",
        "/a\x00b",
        "/a\tb",
        "/a b",
        "/a\x7f",
        "/health#/../upstream",
        "*",
        "",
        "alpha",
        "http://127.0.0.1/health",
    ],
)
def test_a_path_that_could_be_read_in_two_ways_is_refused(path: str) -> None:
    """Dot segments, backslashes and control characters in a path get 400, plain or encoded."""
    for target in (path, path + "?x=1"):
        with pytest.raises(ClientError) as refusal:
            find_destination(b"GET", target.encode(), CROWD)

        assert refusal.value.status == 400


@pytest.mark.parametrize("target", ["/slots?a=b c", "/slots?a=\x00", "/slots?a=b#c"])
def test_a_query_with_raw_control_bytes_is_refused(target: str) -> None:
    """A query with a raw space, control character or # is refused."""
    with pytest.raises(ClientError, match="control character"):
        find_destination(b"GET", target.encode(), CROWD)


@pytest.mark.parametrize(
    ("target", "named", "hint"),
    [
        ("/upstream/nobody/props", '"nobody"', ""),
        ("/upstream/alpa/props", '"alpa"', 'Did you mean "alpha"?'),
        ("/upstream/org/modl/props", '"org"', 'Did you mean "org/model"?'),
        ("/upstream/org%2Fmodl/props", '"org/modl"', 'Did you mean "org/model"?'),
        ("/upstream/alpha%2Fload", '"alpha/load"', ""),
        ("/upstream/alpha%FF/props", '"alpha\ufffd"', 'Did you mean "alpha"?'),
        ("/upstream/", '""', ""),
        ("/upstream//props", '""', ""),
        ("/upstream/" + "n" * 5000, '"' + "n" * 120 + '…"', ""),
        ("/upstream/n" + "/" * 5000, '"n"', ""),
        ("/props?model=alpa", '"alpa"', 'Did you mean "alpha"?'),
    ],
)
def test_an_unknown_model_in_the_url_is_named(target: str, named: str, hint: str) -> None:
    """The error names the unknown model and the nearest known one, in less than 300 characters."""
    with pytest.raises(UnknownModel) as refusal:
        find_destination(b"GET", target.encode(), CROWD)

    assert f"model {named} is not defined" in refusal.value.message
    assert hint in refusal.value.message
    assert len(refusal.value.message) < 300


@pytest.mark.parametrize(
    ("method", "target", "forwarded", "named_model"),
    [
        ("GET", "/upstream/router/props", "/props", CHOICE),
        ("POST", "/upstream/peer/far/v1/chat", "/v1/chat", FAR),
        ("GET", "/props?model=router", "/props?model=router", CHOICE),
    ],
)
def test_selectors_and_models_of_peers_may_stand_in_the_url(
    method: str, target: str, forwarded: str, named_model: NamedModel
) -> None:
    """The URL may name a selector or a peer's model."""
    kind = find_destination(method.encode(), target.encode(), CROWD)

    assert kind == Destination(PathKind.MODEL_IN_URL, forwarded.encode(), named_model)


def test_the_pages_of_comfyui_have_a_place_of_their_own() -> None:
    """If a model is called comfyui_auto, /comfyui/ leads to its pages; otherwise it is an ordinary path."""
    comfyui = model("comfyui_auto")
    kind = find_destination(b"GET", b"/comfyui/ws?id=1", catalog(ALPHA, comfyui))

    assert kind == Destination(PathKind.MODEL_IN_URL, b"/ws?id=1", comfyui)
    assert find_destination(b"GET", b"/comfyui/ws", CROWD) == Destination(PathKind.RUNNING_MODEL, b"/comfyui/ws")


def status_of(ask: Callable[[], object]) -> int | None:
    """The status of the refusal, None when there was none; anything else that is raised fails the test."""
    try:
        ask()
    except HotseatError as refusal:
        return refusal.status
    return None


NAMES = st.sampled_from([b"alpha", b"al", b"org/model", b"org%2Fmodel", b"%6Frg/model"])


@given(name=NAMES, suffix=st.binary(max_size=30), method=st.sampled_from([b"GET", b"POST", b"DELETE"]))
def test_what_is_forwarded_is_the_suffix_of_what_was_received(name: bytes, suffix: bytes, method: bytes) -> None:
    """What follows the model's name is forwarded unchanged, or the request gets 400."""
    target = b"/upstream/" + name + b"/" + suffix
    if status := status_of(lambda: find_destination(method, target, CROWD)):
        assert status == 400
        return

    kind = find_destination(method, target, CROWD)
    if kind.kind is PathKind.MODEL_IN_URL and kind.named_model is not DEEP:
        assert kind.target == b"/" + suffix


@given(method=st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE"]), target=st.binary(max_size=60))
def test_no_target_causes_anything_but_a_refusal(method: bytes, target: bytes) -> None:
    """Any target is resolved, or refused with 400 or 404."""
    for prefix in (b"", b"/", b"/upstream/", b"/slots?model="):
        assert status_of(lambda: find_destination(method, prefix + target, CROWD)) in (None, 400, 404)  # noqa: B023 - called here and now


# The model in a body


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"model": "alpha"}', "alpha"),
        (b' \r\n{"messages": [{"model": "inner"}], "model": "alpha"} ', "alpha"),
        (b'{"model": "first", "model": "last"}', "last"),
        (b'{"mod\\u0065l": "gr\\u00fcn"}', "grün"),
        ('{"model": "grün:7b"}'.encode(), "grün:7b"),
        (b"{}", None),
        (b'{"messages": []}', None),
        (b'{"other": {"model": "inner"}}', None),
    ],
)
def test_the_model_member_names_the_model(body: bytes, named: str | None) -> None:
    """The last top-level `model` member counts."""
    assert model_in_json(body) == named
    assert model_and_members(body)[0] == named


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (b'{"model": "alpha"', "not valid JSON"),
        (b'{"model": "alpha"} x', "not valid JSON"),
        (b'{"model": NaN}', "not valid JSON"),
        (b'\xef\xbb\xbf{"model": "alpha"}', "not valid JSON"),
        (b'{"model": "\xff"}', "not valid JSON"),
        (b'{"model": "\\ud800"}', "byte 11. is half of a surrogate pair"),
        (b'{"model": "alpha", "x": "\\ud83d\\ude00 \\uD83D"}', "byte 38. is half of a surrogate pair"),
        (b'{"model": "alpha", "x": "\\ud83d\\ude00', "Input data was truncated"),
        (b"\x00\x01\x02", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'"alpha"', "must be a JSON object"),
        (b'{"model": 5}', "a string as `model`"),
        (b'{"model": null}', "a string as `model`"),
        (b'{"model": ["alpha"]}', "a string as `model`"),
        (b'{"model": ""}', "empty"),
        (b'{"x": ' + b"[" * TOO_DEEP, "nested too deeply"),
    ],
)
def test_a_body_that_cannot_name_a_model_is_400(body: bytes, message: str) -> None:
    """A body that is not a JSON object with a text `model` gets 400 with the problem."""
    for read in (model_in_json, model_and_members):
        with pytest.raises(ClientError, match=message) as refusal:
            read(body)

        assert refusal.value.status == 400


def test_a_large_body_is_decoded_once_for_its_model_and_its_changes() -> None:
    """The decoded members are used for the changes, so that the body is decoded once."""
    body = b'{"model": "alpha", "prompt": "%b"}' % (b"a" * SMALL)

    model, members = model_and_members(body)

    assert model == "alpha"
    assert rewrite_json(b"", BodyChanges(strip=("prompt",)), members) == b'{"model":"alpha"}'


def test_a_body_with_very_many_members_is_looked_through_only() -> None:
    """If a body may have too many members, only its model is read."""
    body = b'{"x":"%b","model":"alpha"}' % (b":" * MOST_MEMBERS)

    assert model_and_members(body) == ("alpha", None)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(FLOATS), max_size=5), st.text(min_size=1))
def test_the_model_is_found_among_any_members(members: dict[str, object], name: str) -> None:
    """The model is found among arbitrary other members."""
    body = json.dumps({**members, "model": name})

    assert model_in_json(body.encode()) == name


@given(st.binary(max_size=60), st.sampled_from([b"%b", b'{"model":"%b"}', b'{"%b":1}', b'{"x":"%b","model":"a"}']))
def test_no_body_causes_anything_but_a_400(noise: bytes, shape: bytes) -> None:
    """Any body is read or refused with 400."""
    assert status_of(lambda: model_in_json(shape % noise)) in (None, 400)


# Under /v1/


@pytest.mark.parametrize(
    ("named", "known", "spec"),
    [
        ("alpha", CROWD, ALPHA),
        ("al", CROWD, ALPHA),
        ("org/model", CROWD, ORG),
        (None, catalog(ALPHA, ORG, default="org/model"), ORG),
        ("alpha", catalog(ALPHA, ORG, default="org/model"), ALPHA),
        (None, catalog(ALPHA), ALPHA),
    ],
)
def test_the_model_of_a_v1_request(named: str | None, known: Catalog, spec: ModelSpec) -> None:
    """The named model is used, else the default, else the only one."""
    assert name_for_v1(named, known) is spec


@pytest.mark.parametrize(
    ("named", "status", "message"),
    [
        (None, 400, "`model` is missing in the request. Name one of: alpha, org/model, org/model/v1, grün:7b"),
        ("", 400, "empty"),
        ("nobody", 404, '"nobody"'),
        ("alpa", 404, 'Did you mean "alpha"?'),
        ("x" * 100_000, 404, "x…"),
    ],
)
def test_a_v1_request_for_nobody_is_refused(named: str | None, status: int, message: str) -> None:
    """A missing model gets 400 and an unknown one 404, in less than 300 characters."""
    with pytest.raises(ClientError) as refusal:
        name_for_v1(named, CROWD)

    assert refusal.value.status == status
    assert message in refusal.value.message
    assert len(refusal.value.message) < 300


def test_a_long_list_of_names_is_cut() -> None:
    """The error for a missing model lists twenty of a hundred names."""
    with pytest.raises(ClientError) as refusal:
        name_for_v1(None, catalog(*(model(f"m{number}") for number in range(100))))

    assert "m19, …" in refusal.value.message
    assert "m20" not in refusal.value.message
