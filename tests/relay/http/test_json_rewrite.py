"""What the configuration changes in a JSON body."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.too_deep import TOO_DEEP

from hotseat.catalog.spec import BodyChanges
from hotseat.errors import ClientError, TooLarge
from hotseat.relay.http.json_bodies import BEFORE_AN_OBJECT, SMALL, may_be_object, rewrite_json


@pytest.mark.parametrize(
    ("body", "changes", "sent"),
    [
        ('{"model":"a","x":1}', BodyChanges("real"), '{"model":"real","x":1}'),
        ('{"x":1,"model":"a"}', BodyChanges("real"), '{"x":1,"model":"real"}'),
        ('{"x":1}', BodyChanges("real"), '{"x":1,"model":"real"}'),
        ('{"model":"a","model":"b"}', BodyChanges("real"), '{"model":"real"}'),
        ('{"x":1,"y":2}', BodyChanges(strip=("x",)), '{"y":2}'),
        ('{"x":1,"x":2}', BodyChanges(strip=("x",)), "{}"),
        ('{"x":1}', BodyChanges(strip=("nothing", "no.thing")), '{"x":1}'),
        ('{"a":{"b":1,"c":2}}', BodyChanges(strip=("a.b",)), '{"a":{"c":2}}'),
        ('{"a":{"b":{"c":1}}}', BodyChanges(strip=("a.b.c",)), '{"a":{"b":{}}}'),
        ('{"a":{"b":null}}', BodyChanges(strip=("a.b",)), '{"a":{}}'),
        ('{"a":{"b": 1 }}', BodyChanges(strip=("a.x", "a.b.c")), '{"a":{"b": 1 }}'),
        ('{"a":[1],"b":"x"}', BodyChanges(strip=("a.b", "b.c")), '{"a":[1],"b":"x"}'),
        ('{"model":"a"}', BodyChanges(strip=("model", "model.x")), '{"model":"a"}'),
        ('{"x":1}', BodyChanges(set={"x": 2, "y": [None, True, "ü"]}), '{"x":2,"y":[null,true,"ü"]}'),
        ("{}", BodyChanges(set={"a.b.c": 1}), '{"a":{"b":{"c":1}}}'),
        ('{"a":{"x": 1.0}}', BodyChanges(set={"a.b": 1}), '{"a":{"x":1.0,"b":1}}'),
        ('{"a":[1]}', BodyChanges(set={"a.b": 1}), '{"a":{"b":1}}'),
        ('{"a":{}}', BodyChanges(set={"a.b": {"c": 1}}), '{"a":{"b":{"c":1}}}'),
        ('{"model":"a"}', BodyChanges(set={"model": "b", "model.x": 1}), '{"model":"a"}'),
        ('{"model":"a","x":1}', BodyChanges("real", ("x",), {"x": 2}), '{"model":"real","x":2}'),
        ('\ufeff{"x":1}', BodyChanges(strip=("x",)), "{}"),
        ('{"x":1}', BodyChanges(), '{"x":1}'),
    ],
)
def test_a_body_is_changed_in_order(body: str, changes: BodyChanges, sent: str) -> None:
    """The model is renamed, then members are stripped, then members are set; filters never touch `model`."""
    assert rewrite_json(body.encode(), changes).decode() == sent


EVERYTHING = BodyChanges("real", ("x", "a.b"), {"y": 1})


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'[{"x":1}]', b'"x"', b"5", b"null", b"x=1&y=2", b"--frontier\r\n", b"\x00\xff\xfe", b"RIFF\x00{"],
)
def test_a_body_that_is_no_object_stays_as_it_is(body: bytes) -> None:
    """Forms, files and other JSON values pass unchanged."""
    assert rewrite_json(body, EVERYTHING) == body


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":1',
        b' \n{"x":NaN}',
        pytest.param(b" " * SMALL + b'{"x":NaN}', id="after many blanks"),
        b'{"x":1,}',
        b'{"\xff":1,"x":1}',
        b'{"a":{"\xff":1,"b":2}}',
        b'{"x":' + b"[" * TOO_DEEP + b"]" * TOO_DEEP + b"}",
        '{"x":1}'.encode("utf-16"),
        '{"x":1}'.encode("utf-16-le"),
        '{"x":1}'.encode("utf-16-be"),
    ],
)
def test_an_object_that_cannot_be_read_is_refused(body: bytes) -> None:
    """An object that is not valid JSON is refused, because a lenient server might find stripped members in it."""
    with pytest.raises(ClientError, match="not valid JSON"):
        rewrite_json(body, EVERYTHING)


def test_few_of_many_blanks_are_searched() -> None:
    """All of them would take most of the time that others may have to wait, each time that a body is asked about."""
    blanks = b" " * (16 << 20)
    began = time.thread_time()
    blanks.lstrip(BEFORE_AN_OBJECT)
    all_s = time.thread_time() - began
    assert [may_be_object(blanks + end) for end in (b"", b"{}", b"[]")] == [True] * 3
    began = time.thread_time()
    for _ in range(10):
        assert may_be_object(blanks)

    assert time.thread_time() - began < all_s


@pytest.mark.parametrize(("body", "may"), [(b"", False), (b" \n", False), (b" {", True), (b" [{}]", False)])
def test_what_may_be_an_object(body: bytes, may: bool) -> None:
    """A short body is searched whole."""
    assert may_be_object(body) is may


NUMBERS = [
    "1.00",
    "1e400",
    "123456789012345678901234567890",
    "-0",
    "0.1000",
    '"\\u00e9"',
    "[1,  2]",
    '{ "a" : 1 }',
    "true",
]


@given(st.dictionaries(st.text("abcdefgh", min_size=1), st.sampled_from(NUMBERS), max_size=6))
def test_untouched_values_keep_their_bytes(members: dict[str, str]) -> None:
    """Values that are not changed keep their bytes and their order."""
    body = "{" + ", ".join(f'"{key}" : {value}' for key, value in members.items()) + "}"
    kept = ",".join(f'"{key}":{value}' for key, value in members.items())

    sent = rewrite_json(body.encode(), BodyChanges(strip=("not_there", "a.not_there"), set={"new": 1})).decode()

    assert sent == "{" + ",".join(filter(None, [kept, '"new":1'])) + "}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=3), VALUES), VALUES)
def test_what_is_set_is_what_arrives(members: dict[str, Any], value: Any) -> None:
    """A set member has its value, and all others keep theirs."""
    sent = json.loads(rewrite_json(json.dumps(members).encode(), BodyChanges(set={"added": value})))

    assert sent == {**members, "added": value}


@pytest.mark.parametrize("changes", [BodyChanges(strip=("a.b",)), BodyChanges(set={"a.b": 1})])
def test_a_large_object_inside_a_body_is_not_changed(changes: BodyChanges) -> None:
    """A nested object of more than 256 KiB that must be changed is TooLarge."""
    with pytest.raises(TooLarge, match="`a` in the request body is larger than 256 KiB"):
        rewrite_json(b'{"a":{"x":"%b"}}' % (b"x" * SMALL), changes)
