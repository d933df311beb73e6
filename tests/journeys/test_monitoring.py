"""The Grafana dashboard and the alerts, with a real Prometheus and a hotseat that swaps real models."""

from __future__ import annotations

import json
import re
import subprocess
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.client import PATIENCE_S
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama
from tests.support.prometheus import Prometheus, program
from tests.support.waiting import eventually

from hotseat.telemetry.metric_names import FIGURES, UPSTREAM_UP

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTRIB = Path(__file__).parents[2] / "contrib"
RULES = CONTRIB / "prometheus/alerts.yaml"
SELECTOR = re.compile(r"\b(?:up|hotseat_\w+|process_\w+)(?:\{[^}]*\})?")
VARIABLES = {"$instance": ".*", "$model": ".*", "$__rate_interval": "5m"}


def alerts() -> list[dict[str, Any]]:
    return list(yaml.safe_load(RULES.read_text())["groups"][0]["rules"])


def panels() -> list[tuple[str, str]]:
    """Title and expression of all that the dashboard asks."""
    board = json.loads((CONTRIB / "grafana/hotseat.json").read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", [])]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has seen loads, stops and answers as they happened."""
    folder = tmp_path_factory.mktemp("monitored")
    models = {"alpha": llama("alpha", "--metrics"), "beta": llama("beta")}
    config, environ = {"conversations": "on", "models": models}, {"XDG_CACHE_HOME": str(folder / "cache")}
    with ForkedHotseat(config, folder, environ=environ) as rig, Prometheus(rig.port, RULES, folder) as prometheus:
        eventually(lambda: prometheus.query("hotseat_build_info"), within=PATIENCE_S)
        for model in ("alpha", "beta", "alpha"):
            assert rig.chat(model).status == 200
        rig.chat("nobody")
        seen = 'hotseat_load_seconds_count{model="alpha"} == 2 and on () count_over_time(up[5m]) > 3'
        eventually(lambda: prometheus.query(seen), within=PATIENCE_S)
        eventually(lambda: prometheus.query('llamacpp:n_tokens_max{model="alpha"} > 0'), within=PATIENCE_S)
        rig.chat("alpha")
        rig.chat("beta")
        tokens = 'increase(hotseat_tokens_per_second_count{model="alpha"}[5m]) > 0'
        eventually(lambda: prometheus.query(tokens), within=PATIENCE_S)
        yield prometheus


def test_the_alerts_are_rules_and_fire_when_they_should() -> None:
    """promtool plays them a bad day and an ordinary one."""
    for what in (("check", "rules", str(RULES)), ("test", "rules", str(RULES.with_suffix(".test.yaml")))):
        done = subprocess.run([program("promtool"), *what], capture_output=True, text=True)

        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    """Each fires on promtool's bad day."""
    tested = RULES.with_suffix(".test.yaml").read_text()

    assert [alert["alert"] for alert in alerts() if f'alertname="{alert["alert"]}"' not in tested] == []


@pytest.mark.llama
def test_prometheus_takes_up_the_alerts(prometheus: Prometheus) -> None:
    """All of them are evaluated without an error, and none fires."""
    eventually(lambda: all(rule["health"] == "ok" for rule in rules_of(prometheus)))
    loaded = rules_of(prometheus)

    assert {rule["name"] for rule in loaded} == {alert["alert"] for alert in alerts()}
    assert [rule["name"] for rule in loaded if rule["state"] == "firing"] == []


def rules_of(prometheus: Prometheus) -> list[dict[str, Any]]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


@pytest.mark.llama
@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_what_an_alert_looks_at_is_there(prometheus: Prometheus, alert: dict[str, Any]) -> None:
    """Every figure with every label that it asks for: an alert on what is never printed would never fire."""
    selectors = SELECTOR.findall(alert["expr"])

    assert selectors
    eventually(lambda: all(prometheus.query(selector) for selector in selectors))  # a scrape that was late has none


@pytest.mark.llama
@pytest.mark.parametrize(("title", "expression"), panels())
def test_every_panel_shows_something(prometheus: Prometheus, title: str, expression: str) -> None:
    """A number at least: no panel stays empty for want of a figure or of a label."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)

    assert eventually(lambda: numbers(prometheus.query(expression)), within=PATIENCE_S), title


def test_every_panel_asks_for_documented_figures() -> None:
    """Those without API keys, a GPU or a fleet show nothing here, so a misspelt name in them would not be noticed."""
    documented = {figure.name: figure.labels for figure in FIGURES}
    for title, expression in panels():
        for selector in SELECTOR.findall(expression):
            name, _, labels = selector.removesuffix("}").partition("{")
            of_figure = documented[name.removesuffix("_bucket")]

            assert {label.split("=")[0].rstrip("!") for label in labels.split(",")} <= {
                *of_figure,
                "instance",
                "job",
            }, title


def numbers(found: list[dict[str, Any]]) -> list[float]:
    return [value for each in found if isfinite(value := float(each["value"][1]))]


@pytest.mark.llama
def test_prometheus_sees_what_model_servers_print(prometheus: Prometheus) -> None:
    """With the model as a label, under the name that llama-server gives it; a server without metrics is reported."""
    largest = 'last_over_time(llamacpp:n_tokens_max{job="hotseat-upstreams",model="alpha"}[1h])'

    assert numbers(prometheus.query(largest))
    assert eventually(lambda: prometheus.query('hotseat_upstream_up{model="beta"} == 0'), within=PATIENCE_S)


@pytest.mark.llama
def test_prometheus_sees_what_is_documented(prometheus: Prometheus) -> None:
    """Names and types, as the page of metrics has them."""
    seen = {each["metric"]: each["type"] for each in prometheus.ask("targets/metadata")}
    documented = {figure.name: figure.kind.value for figure in (*FIGURES, UPSTREAM_UP)}

    assert {name: kind for name, kind in seen.items() if name.startswith(("hotseat_", "process_"))} == documented
