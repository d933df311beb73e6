"""From a finished request to the spans of its trace."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import FORWARD, ROOT, traced

from hotseat.activity.recent import Tokens
from hotseat.identifiers import ModelName
from hotseat.tracing.span import Kind, nanoseconds, spans_of
from hotseat.tracing.swap_steps import Step
from hotseat.tracing.traceparent import Parent

if TYPE_CHECKING:
    from hotseat.tracing.span import Span, TracedRequest

ALPHA, BETA = ModelName("alpha"), ModelName("beta")


def spans(asked: TracedRequest) -> dict[str, Span]:
    found = spans_of(asked, count(10).__next__)
    assert len({span.id for span in found}) == len(found)
    return {span.name: span for span in found}


def test_a_request_that_waited() -> None:
    """The whole request, its wait with the reasons, and the work of the model server."""
    made = spans(traced(queued_because="alpha is protected", reason="waited for beta to load"))
    root, queue, forward = made["chat beta"], made["queue"], made["forward"]

    assert [*made] == ["chat beta", "queue", "forward"]
    assert (root.id, root.parent_id, root.kind, root.began, root.ended) == (ROOT, 0, Kind.SERVER, 100.0, 105.0)
    assert (queue.parent_id, queue.kind, queue.began, queue.ended) == (ROOT, Kind.INTERNAL, 100.0, 103.0)
    assert queue.attributes == {
        "hotseat.reason_at_first": "alpha is protected",
        "hotseat.reason": "waited for beta to load",
    }
    assert (forward.id, forward.parent_id, forward.kind) == (FORWARD, ROOT, Kind.CLIENT)
    assert (forward.began, forward.ended, forward.events) == (103.0, 105.0, (("first token", 103.5),))
    assert not any(span.has_failed for span in made.values())


def test_what_is_said_about_a_request() -> None:
    """The names of the conventions for generative AI and HTTP; nothing that was not known."""
    tokens = Tokens(prompt=20, completion=4, per_second=9.0, cached=0)
    [root] = [span for span in spans_of(traced(tokens=tokens, key="team"), count(10).__next__) if span.id == ROOT]

    assert root.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "hotseat",
        "gen_ai.request.model": "beta",
        "gen_ai.response.model": "beta",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "hotseat.request.id": "box-7",
        "hotseat.key": "team",
    }


def test_a_request_that_was_granted_at_once() -> None:
    """It has no wait to show."""
    assert [*spans(traced(granted_at=100.0))] == ["chat beta", "forward"]


def test_a_request_that_swapped() -> None:
    """The steps are inside one span, which names what was evicted; a step may have begun before the request."""
    steps = (
        Step("drain", ALPHA, "its turn was over", 98.0, 100.5),
        Step("stop", ALPHA, "unloaded to free memory for beta", 100.5, 101.0),
        Step("start", BETA, "started for 1 request", 101.0, 103.0),
    )
    made = spans(traced(steps=steps))
    swap = made["swap"]

    assert [*made] == ["chat beta", "queue", "swap", "drain", "stop", "start", "forward"]
    assert (swap.parent_id, swap.began, swap.ended) == (ROOT, 98.0, 103.0)
    assert swap.attributes == {"hotseat.evicted": ("alpha",)}
    assert {made[step.name].parent_id for step in steps} == {swap.id}
    assert made["drain"].attributes == {"hotseat.model": "alpha", "hotseat.reason": "its turn was over"}
    assert (made["start"].began, made["start"].ended, made["start"].has_failed) == (101.0, 103.0, False)


def test_a_load_that_failed() -> None:
    """Its request was never granted: it waited until it ended, and nothing was forwarded."""
    failed = Step("start", BETA, "started for 1 request", 100.0, 104.0, has_failed=True)
    made = spans(traced(status=503, granted_at=None, first_token_at=None, steps=(failed,)))

    assert [*made] == ["chat beta", "queue", "swap", "start"]
    assert made["queue"].ended == 105.0
    assert made["start"].has_failed
    assert made["chat beta"].has_failed
    assert made["chat beta"].attributes["error.type"] == "503"


def test_a_request_of_another_program() -> None:
    """The span of the client is the parent of the whole request."""
    made = spans(traced(Parent(7, 4711, is_sampled=True)))

    assert made["chat beta"].parent_id == 4711


def test_a_request_that_another_host_served() -> None:
    """The host that was asked names the one that served it, which names the first."""
    asked = spans(traced(sent_to_host="b"))
    serving = spans(traced(from_host="a"))

    assert asked["forward"].attributes == {"hotseat.to_host": "b"}
    assert serving["chat beta"].attributes["hotseat.from_host"] == "a"


@pytest.mark.parametrize(
    ("status", "has_failed", "said"),
    [
        (404, False, {"http.response.status_code": 404}),
        (499, False, {"http.response.status_code": 499}),
        (502, True, {"http.response.status_code": 502, "error.type": "502"}),
        (0, True, {"error.type": "no_response"}),
    ],
)
def test_how_requests_end(status: int, has_failed: bool, said: dict[str, Any]) -> None:
    """Errors of clients, and clients that leave, are no failures of this server."""
    made = spans(traced(status=status, first_token_at=None))
    root, forward = made["chat beta"], made["forward"]
    of_end = ("http.response.status_code", "error.type", "gen_ai.response.model")
    about_end = {name: value for name, value in root.attributes.items() if name in of_end}

    assert about_end == said
    assert (root.has_failed, forward.has_failed) == (has_failed, has_failed)
    assert forward.events == ()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/completions", "text_completion beta"),
        ("/v1/embeddings", "embeddings beta"),
        ("/v1/messages", "chat beta"),
        ("/v1/responses", "chat beta"),
        ("/v1/rerank", "POST beta"),
        ("/secret/of/a/client", "POST beta"),
    ],
)
def test_the_name_of_a_request(path: str, name: str) -> None:
    """The operation where the conventions have a name for it, never a path that a client made up."""
    root = next(iter(spans(traced(path=path)).values()))

    assert root.name == name
    assert "secret" not in repr(root)


def test_times_are_exact() -> None:
    """A nanosecond of a clock that has run for a year."""
    assert nanoseconds(31_536_000.001) == 31_536_000_001_000_000
