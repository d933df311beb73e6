"""A trace says exactly what it means, or which line does not."""

from __future__ import annotations

import pytest
from tests.support.too_deep import TOO_DEEP

from hotseat.simulation.trace import (
    Burst,
    Bursts,
    Closed,
    Group,
    Job,
    Matrix,
    Memory,
    Model,
    Open,
    Pool,
    Prompt,
    Scheduler,
    Step,
    Trace,
    TraceError,
    parse,
    write,
)

WHOLE = """
# two models, four kinds of client
{"t": "model", "name": "A", "size": 20, "load": 15.3, "stop": 1.0, "slots": 4}
{"t": "model", "name": "B", "size": {"gpu0": 2, "gpu1": 3}, "load": 4}
{"t": "memory", "devices": {"gpu0": 24, "gpu1": 24}}
{"t": "group", "name": "small", "members": ["B"], "swap": false, "exclusive": false}
{"t": "matrix", "sets": [["A", "B"]], "evict_costs": {"A": 3}}
{"t": "scheduler", "patience": 4, "max_wait": 90}
{"t": "open", "client": "u1", "at": 12.5, "model": "A", "service": 3.1}
{"t": "closed", "client": "ag1", "start": 0, "steps": [[0.5, "A", 3.0], [0.5, "B", 2.2]]}
{"t": "bursts", "client": "ag2", "start": 0, "bursts": [[0.5, [["A", 3.0], ["A", 2.0]]], [1.0, [["B", 4.0]]]]}
{"t": "pool", "client": "batch", "start": 0, "width": 8, "jobs": [["B", 6.0]]}
"""


def test_every_record_is_understood() -> None:
    """Each line becomes the record it names; comments and empty lines are skipped."""
    trace = parse(WHOLE)

    assert trace.models == (Model("A", 15.3, 1.0, 4, 20.0), Model("B", 4.0, size={"gpu0": 2.0, "gpu1": 3.0}))
    assert trace.memory == Memory({"gpu0": 24.0, "gpu1": 24.0})
    assert trace.groups == (Group("small", ("B",), swap=False, exclusive=False),)
    assert trace.scheduler == Scheduler(patience=4.0, max_wait=90.0)
    assert trace.matrix == Matrix((("A", "B"),), {"A": 3})
    assert trace.clients == (
        Open("u1", 12.5, "A", 3.1),
        Closed("ag1", (Step(0.5, "A", 3.0), Step(0.5, "B", 2.2))),
        Bursts("ag2", (Burst(0.5, (Job("A", 3.0), Job("A", 2.0))), Burst(1.0, (Job("B", 4.0),)))),
        Pool("batch", 8, (Job("B", 6.0),)),
    )


def test_a_written_trace_is_read_as_it_was() -> None:
    """Writing and reading lose nothing."""
    trace = parse(WHOLE)

    assert parse(write(trace)) == trace


def test_a_trace_without_memory_is_complete() -> None:
    """No memory line means that memory is not counted."""
    assert parse('{"t": "model", "name": "A", "load": 1}') == Trace((Model("A", 1.0),), ())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: not JSON: Input data was truncated"),
        ('{"x": ' + "[" * TOO_DEEP, "line 2: nested too deeply"),
        ('{"t": "modle", "name": "A"}', "line 2: Invalid value 'modle' - at t"),
        ('{"t": "open", "client": "u", "at": -1, "model": "A", "service": 1}', "line 2: Expected float >= 0.0 - at at"),
        ('{"t": "closed", "client": "u", "steps": [["A", 0, 1]]}', "line 2: Expected float, got str - at steps[0][0]"),
        (
            '{"t": "bursts", "client": "u", "bursts": [[1, []]]}',
            "line 2: Expected array of length >= 1 - at bursts[0][1]",
        ),
        (
            '{"t": "bursts", "client": "u", "bursts": [[1, [["A", 1], ["C", 1]]]]}',
            "line 2: client u requests C, but no line defines it.",
        ),
        ('{"t": "memory", "devices": {"gpu0": 1}, "reserve": 1}', "line 2: Object contains unknown field reserve"),
        ('{"t": "model", "name": "A", "load": 2}', "line 2: model A is already defined in line 1"),
        (
            '{"t": "model", "name": "B", "load": 2, "size": {"gpu7": 1}}',
            "line 2: model B uses memory on gpu7, but no memory line defines this device",
        ),
        (
            '{"t": "model", "name": "B", "load": 2, "size": {"gpus": 1}}',
            "line 2: model B uses memory on gpus, but no memory line defines this device",
        ),
        (
            '{"t": "model", "name": "B", "load": 2, "size": {"gpus": 1}, "gpus": ["gpu7"]}',
            "line 2: model B uses memory on gpu7, but no memory line defines this device",
        ),
        (
            '{"t": "matrix", "sets": [["A", "C"]]}',
            "line 2: the matrix contains C, but no line defines it.",
        ),
        (
            '{"t": "group", "name": "g", "members": ["C"]}',
            "line 2: group g contains C, but no line defines it.",
        ),
        (
            '{"t": "open", "client": "u", "at": 1, "model": "qwem", "service": 1}',
            "line 2: client u requests qwem, but no line defines it.",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line(line: str, problem: str) -> None:
    """The error says which line is wrong, and how."""
    with pytest.raises(TraceError) as wrong:
        parse(f'{{"t": "model", "name": "A", "load": 1}}\n{line}\n')

    assert wrong.value.problems == [problem]


@pytest.mark.parametrize(("said", "gpus"), [('"auto"', "auto"), ("2", 2), ('["gpu1"]', ("gpu1",))])
def test_the_cards_of_a_model_are_written_as_in_a_configuration(said: str, gpus: object) -> None:
    """Its size is then that on its cards together."""
    trace = parse(
        '{"t": "memory", "devices": {"gpu0": 24, "gpu1": 24}}\n'
        f'{{"t": "model", "name": "A", "load": 1, "size": {{"gpus": 8}}, "gpus": {said}}}'
    )

    assert trace.models[0].gpus == gpus


def test_a_near_miss_is_helped() -> None:
    """A model that is nearly named right is suggested."""
    with pytest.raises(TraceError, match='Did you mean "qwen"'):
        parse(
            '{"t": "model", "name": "qwen", "load": 1}\n{"t": "pool", "client": "b", "width": 1, "jobs": [["qwem", 1]]}'
        )


def test_all_mistakes_are_reported_at_once() -> None:
    """One run shows all mistakes."""
    with pytest.raises(TraceError) as wrong:
        parse("{\n[]\n")

    assert [problem.partition(":")[0] for problem in wrong.value.problems] == ["line 1", "line 2"]


def test_memory_is_defined_once() -> None:
    """A second memory line would silently replace the first."""
    with pytest.raises(TraceError, match="line 3: memory is already defined in line 2"):
        parse('{"t": "model", "name": "A", "load": 1}\n' + '{"t": "memory", "devices": {"gpu0": 1}}\n' * 2)


def test_an_empty_trace_says_what_is_missing() -> None:
    """Without a model there is nothing to play."""
    with pytest.raises(TraceError, match="no model is defined"):
        parse("")


def test_a_trace_says_its_patience_even_if_it_is_the_default() -> None:
    """A recording must mean the same when the defaults have changed."""
    assert '{"t":"scheduler","patience":2.0,"max_queue":512,"max_wait":null}' in write(Trace((Model("A", 1.0),), ()))


def test_only_a_newline_ends_a_line() -> None:
    """Names may hold any other sign."""
    odd = Trace((Model("a\u2028b\x85c", 1.0),), ())

    assert parse(write(odd)) == odd


@pytest.mark.parametrize(("gpus", "is_valid"), [(2, True), (3, False)])
def test_a_model_that_uses_more_gpus_than_there_are(gpus: int, *, is_valid: bool) -> None:
    """RAM is none of them. Without a memory line nobody knows how many there are."""
    models = (Model("A", 1.0, size=8.0, gpus=gpus),)
    memory = Memory({"gpu0": 24.0, "gpu1": 24.0, "ram": 64.0})

    assert parse(write(Trace(models, ()))).models == models
    if is_valid:
        assert parse(write(Trace(models, (), memory))).models == models
    else:
        with pytest.raises(TraceError, match="line 3: model A uses 3 GPUs, but the memory line defines 2"):
            parse(write(Trace(models, (), memory)))


def test_requests_may_have_the_tokens_of_their_prompts() -> None:
    """In every kind of client; a trace without them is read as before."""
    trace = parse(
        """
{"t": "model", "name": "A", "load": 4, "compute_rate": 900, "save_rate": 3e4, "keeps_conversations": true}
{"t": "open", "client": "u1", "at": 12.5, "model": "A", "service": 3.1, "prompt": [400]}
{"t": "closed", "client": "ag1", "steps": [[0.5, "A", 3.0, [400, 3000, 90]], [0.5, "A", 2.2]]}
{"t": "bursts", "client": "ag2", "bursts": [[0.5, [["A", 3.0, [400, 3000]]]]]}
{"t": "pool", "client": "batch", "width": 8, "jobs": [["A", 6.0, [70]]]}
"""
    )

    assert trace.models == (Model("A", 4.0, compute_rate=900.0, save_rate=3e4, keeps_conversations=True),)
    assert trace.clients == (
        Open("u1", 12.5, "A", 3.1, Prompt(400)),
        Closed("ag1", (Step(0.5, "A", 3.0, Prompt(400, 3000, 90)), Step(0.5, "A", 2.2))),
        Bursts("ag2", (Burst(0.5, (Job("A", 3.0, Prompt(400, 3000)),)),)),
        Pool("batch", 8, (Job("A", 6.0, Prompt(70)),)),
    )
    assert parse(write(trace)) == trace


def test_a_rate_of_nothing_is_refused() -> None:
    """A model whose rate is unknown has none."""
    with pytest.raises(TraceError, match=r"line 1: Expected `?float`? > 0\.0"):
        parse('{"t": "model", "name": "A", "load": 4, "compute_rate": 0}')
