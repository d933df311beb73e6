"""The metrics of all model servers on one page, and how their pages are read."""

from __future__ import annotations

import asyncio
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.prometheus import program
from tests.support.waiting import come_true

from hotseat.identifiers import LaunchId, ModelName
from hotseat.telemetry.metric_names import UPSTREAM_UP
from hotseat.telemetry.upstream_page import (
    MOST_LINES,
    NotPrometheusText,
    UpstreamPage,
    families_of,
    merged,
    page_of,
    printed,
)

if TYPE_CHECKING:
    from prometheus_client import Metric

ALPHA, BETA = ModelName("alpha"), ModelName("org/beta")
HEAD = f"# HELP hotseat_upstream_up {UPSTREAM_UP.meaning}\n# TYPE hotseat_upstream_up gauge\n"


def test_without_servers_there_is_a_page() -> None:
    """A scrape succeeds if no model runs."""
    assert page_of({}).decode() == HEAD


def test_a_server_without_metrics_does_not_hide_the_others() -> None:
    """It has a sample that says so, whether it has no page or one that cannot be read."""
    for page in (None, "<html>"):
        assert page_of({ALPHA: page, BETA: "x 1\n"}).decode() == (
            f'{HEAD}hotseat_upstream_up{{model="alpha"}} 0\nhotseat_upstream_up{{model="org/beta"}} 1\n'
            'x{model="org/beta"} 1\n'
        )


def test_no_server_speaks_for_hotseat() -> None:
    """Families with hotseat's prefix are left out, parts of a histogram included; others of the same page stay."""
    forged = (
        "# TYPE hotseat_waiting gauge\nhotseat_waiting 9\nhotseat_upstream_up 1\n"
        "# TYPE hotseat histogram\nhotseat_sum 9\nx 1\n"
    )
    page = page_of({ALPHA: forged}).decode()

    assert page == f'{HEAD}hotseat_upstream_up{{model="alpha"}} 1\nx{{model="alpha"}} 1\n'


class Servers:
    """One ready server, which prints how often it was asked, when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        running = SimpleNamespace(name=ALPHA, launch=LaunchId(1))
        view = SimpleNamespace(running=lambda: (running,))
        self.page = UpstreamPage(lambda: view, self.ask)  # type: ignore[arg-type, return-value]  # all that is read of it

    async def ask(self, _: LaunchId) -> str:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        return f"x {number}\n"


async def test_many_scrapes_at_once() -> None:
    """Who comes while the servers are asked gets the same page; who comes later gets a new one."""
    servers = Servers()
    async with asyncio.TaskGroup() as group:
        scrapes = [group.create_task(servers.page.render()) for _ in range(20)]
        await come_true(lambda: servers.asked)
        servers.may_answer.set()
    later = await servers.page.render()

    assert {b'x{model="alpha"} 1' in scrape.result() for scrape in scrapes} == {True}
    assert (servers.asked, b'x{model="alpha"} 2' in later) == (2, True)


async def test_a_scraper_that_gives_up() -> None:
    """The next one that waits asks the servers itself."""
    servers = Servers()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(servers.page.render())
        await come_true(lambda: servers.asked)
        second = group.create_task(servers.page.render())
        await asyncio.sleep(0)
        first.cancel()
        await come_true(lambda: servers.asked == 2)
        servers.may_answer.set()

    assert b'x{model="alpha"} 2' in second.result()


LLAMA = """\
# HELP llamacpp:n_tokens_max Largest observed sequence length.
# TYPE llamacpp:n_tokens_max counter
llamacpp:n_tokens_max 17
# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 0
"""
MARK = '{model="alpha"'
PIECES = (
    *("x", "a", "_sum", "_count", "_bucket", "hotseat_up", "{", "}", ",", "=", '"', "\\", "n", "\n", " ", "\t", "#"),
    *("1", "1.5", "e9", "-", "+Inf", "NaN", "x 1\n", 'x{a="b"} 1\n', 'model="', 'exported_model="', '" ', '"} 1 5\n'),
    *("# TYPE ", "# HELP ", "# TYPE a histogram\n", "# TYPE x counter\n", "# HELP x y\n", "gauge", "é", "\u2028"),
)
PAGES = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n"))


def together(**pages: str) -> str:
    """One page of these, with the label `model`."""
    return printed(merged([(model, families_of(page)) for model, page in pages.items()], "model"))


def read_by_client(page: str) -> list[Metric]:
    return list(text_string_to_metric_families(page))


def test_two_servers_have_one_header() -> None:
    """Prometheus wants all samples of a metric below one header; names and values stay as the servers print them."""
    assert together(alpha=LLAMA, beta=LLAMA.replace("17", "4.5e+3")) == (
        "# HELP llamacpp:n_tokens_max Largest observed sequence length.\n"
        "# TYPE llamacpp:n_tokens_max counter\n"
        'llamacpp:n_tokens_max{model="alpha"} 17\n'
        'llamacpp:n_tokens_max{model="beta"} 4.5e+3\n'
        "# HELP llamacpp:requests_processing Number of requests processing\n"
        "# TYPE llamacpp:requests_processing gauge\n"
        'llamacpp:requests_processing{model="alpha"} 0\n'
        'llamacpp:requests_processing{model="beta"} 0\n'
    )


def test_the_parts_of_a_histogram_stay_together() -> None:
    """Buckets, sum and count belong to one family, also if two servers print them."""
    timed = '# TYPE t histogram\nt_bucket{le="+Inf"} 2\nt_sum 0.5\nt_count 2\n'
    page = timed + '# TYPE q summary\nq{quantile="0.5"} 1\nq_sum 1\n'
    first, second = read_by_client(together(alpha=page, beta=page))

    assert (first.name, first.type, len(first.samples)) == ("t", "histogram", 6)
    assert (second.name, second.type, len(second.samples)) == ("q", "summary", 4)


def test_a_name_like_a_part_is_no_part_of_another_type() -> None:
    """`x_count` beside a gauge `x` is a metric of its own, and so is `x_bucket` beside a summary."""
    families = families_of("# TYPE x gauge\nx 1\nx_count 2\n# TYPE s summary\ns_count 1\ns_bucket 3\n")

    assert {name: len(family.samples) for name, family in families.items()} == {
        "x": 1, "x_count": 1, "s": 1, "s_bucket": 1,
    }  # fmt: skip


def test_servers_that_disagree_about_a_type() -> None:
    """A second header would make the page invalid, and neither type would be true: the metric has none."""
    page = together(alpha="# TYPE x counter\nx 1\n", beta="# TYPE x gauge\nx 2\n")

    assert page == 'x{model="alpha"} 1\nx{model="beta"} 2\n'


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ('x{model="qwen"} 1', 'x{model="alpha",exported_model="qwen"} 1'),
        ('x{exported_model="a",model="b"} 1', 'x{model="alpha",exported_model="a",exported_exported_model="b"} 1'),
        ('x{model_name="qwen",} 1', 'x{model="alpha",model_name="qwen"} 1'),
        ("x{} 1", 'x{model="alpha"} 1'),
    ],
)
def test_a_servers_own_label_is_kept_under_another_name(own: str, kept: str) -> None:
    """As Prometheus does where a label of the target has the same name."""
    assert together(alpha=f"{own}\n") == f"{kept}\n"


@pytest.mark.parametrize(
    "line",
    [
        "x 1",
        "x\t 1.5 1700000000000",
        "  x 1  ",
        'x { a = "b" , c = "d" } 1',
        'x{a="\\"}\\\\,\\n"} -1e-9 -5',
        "x .5",
        "x 5.",
        "x 1e-999",
        "x +Inf",
        "x -inf",
        "x NaN",
        'x{a="ümlaut \u2028 "} 1',
    ],
)
def test_a_valid_sample(line: str) -> None:
    """Both parsers read the same sample."""
    (ours,) = read_by_client(together(alpha=f"{line}\n"))
    (theirs,) = read_by_client(f"{line}\n")
    (sample,) = ours.samples

    assert sample.labels.pop("model") == "alpha"
    assert repr(sample) == repr(theirs.samples[0])


@pytest.mark.parametrize(
    "page",
    [
        "<!DOCTYPE html>",
        '{"error": "not found"}',
        "x",
        "x y",
        "x1",
        "1x 1",
        "x 1_000",
        "x 0x10",
        "x 1 2 3",
        "x 1 soon",
        "x 1e999",
        "x 1 9223372036854775808",
        "x " + "1" * 400,
        "x 1 # {} 1",
        "grün 1",
        'x{a="b} 1',
        'x{a="b"c="d"} 1',
        'x{a="\\t"} 1',
        "x{a=b} 1",
        "x{,} 1",
        'x{"quoted name"="b"} 1',
        'x{a="b",a="c"} 1',
        'x{__name__="hotseat_up"} 1',
        "# TYPE x info",
        "# TYPE x",
        "x 1\r",
        'x{a="\0"} 1',
        "x 1\n" * MOST_LINES,
    ],
)
def test_what_is_not_a_page_of_metrics(page: str) -> None:
    """One line that Prometheus would refuse makes it refuse the whole page, with the samples of all models."""
    with pytest.raises(NotPrometheusText):
        families_of(page)


def test_comments_and_empty_lines_are_ignored() -> None:
    """Only HELP and TYPE have a meaning; an empty page is a page."""
    assert families_of("") == {}
    assert families_of("# a remark\n#\n\n#HELP y is a remark too\n") == {}


def test_a_description_with_an_unknown_escape_is_left_out() -> None:
    """Prometheus accepts it, but readers that use its Go library refuse the whole page."""
    assert together(alpha="# HELP x \\d+ of \\\\ and \\n\n# HELP y a\\\\b\\nc\nx 1\ny 1\n") == (
        'x{model="alpha"} 1\n# HELP y a\\\\b\\nc\ny{model="alpha"} 1\n'
    )


@given(PAGES)
def test_no_page_contains_a_line_without_its_model(page: str) -> None:
    """Whatever a server prints is refused, or becomes headers and samples of its model, which read the same again."""
    try:
        families = families_of(page)
    except NotPrometheusText:
        return
    again = printed(merged([("alpha", families)], "model"))

    samples = [line for line in again.split("\n") if line and not line.startswith(("# HELP ", "# TYPE "))]

    assert all(MARK in line for line in samples)
    assert printed(families_of(again)) == again


@given(VALUES, VALUES)
def test_any_name_of_a_model_and_any_value_can_be_written(model: str, own: str) -> None:
    """Quotes, backslashes and ends of lines are escaped, so that no value becomes a line of its own."""
    registry = CollectorRegistry()
    Gauge("x", "A\nmeaning.", ["model"], registry=registry).labels(own).set(1)
    (family,) = read_by_client(together(**{model: generate_latest(registry).decode()}))

    assert family.documentation == "A\nmeaning."
    assert [sample.labels for sample in family.samples] == [{"model": model, "exported_model": own}]


def test_prometheus_own_tool_accepts_the_page() -> None:
    """promtool reads it, and finds nothing to criticise that it would not find in the servers' pages."""
    registry = CollectorRegistry()
    Counter("served", "Requests.", ["model"], registry=registry).labels("qwen").inc()
    Histogram("took_seconds", "Time.", registry=registry).observe(0.2)
    Summary("size_bytes", "Size.", registry=registry).observe(3)
    page = generate_latest(registry).decode()
    tool = [program("promtool"), "check", "metrics"]
    done = subprocess.run(tool, input=together(alpha=page, beta=page), capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


HISTOGRAM = '# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HISTOGRAM, "# HELP a_count Of another metric.\n# TYPE a_count counter\na_count 3\n"),
        (HISTOGRAM, HISTOGRAM + "# TYPE a_count counter\n"),
        (HISTOGRAM, "# TYPE a_sum histogram\na_sum_count 1\n"),
        (HISTOGRAM, 'a_bucket{le="many"} 1\n'),
        (HISTOGRAM, '# TYPE a histogram\na_bucket{le="1_0"} 1\n'),
        (HISTOGRAM, '# TYPE a histogram\na_bucket{le="1e999"} 1\n'),
        ('# TYPE a summary\na{quantile="0.5"} 1\n', '# TYPE a summary\na{quantile="half"} 1\n'),
        (HISTOGRAM, '# TYPE a summary\na{quantile="half"} 1\n'),
        (HISTOGRAM, 'a_bucket{le="many"} 1\n# TYPE a_count gauge\na_count 1\n'),
        (HISTOGRAM, "# TYPE a_sum histogram\na_sum_count 1\n# TYPE a_sum_count gauge\na_sum_count 1\n"),
    ],
    ids=range(10),
)
def test_a_page_that_breaks_another_one(one: str, other: str) -> None:
    """No server makes Prometheus' tool refuse the metrics of the others, whichever comes first; no sample is lost."""
    for pages in ({"alpha": one, "beta": other}, {"beta": other, "alpha": one}):
        page = together(**pages)
        done = subprocess.run([program("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)

        assert "error" not in done.stderr
        assert page.count('model="beta"') == sum(not line.startswith("#") for line in other.splitlines())
