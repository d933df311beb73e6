"""The page of all model servers, from what each of them printed."""

from __future__ import annotations

from hotseat.identifiers import ModelName
from hotseat.telemetry.metric_names import UPSTREAM_UP
from hotseat.telemetry.upstream_page import page_of

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
