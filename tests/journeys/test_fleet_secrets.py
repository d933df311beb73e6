"""Real hosts whose secrets differ: by mistake, and one after the other while a secret is replaced."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.fleet_journey import CONNECT_S, Hosts, names_at, nats_cluster
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.timeout(180)

OLD, NEW = "o" * 32, "n" * 32
MODELS = {"a": {"near": stub("near"), "both": stub("both")}, "b": {"far": stub("far"), "both": stub("both")}}
EVERYTHING = {"near", "far", "both"}
PAUSE_S = 0.02
"""Without any, the client would keep the hosts from starting."""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(tmp_path, stack.enter_context(nats_cluster(tmp_path / "nats", 1)), stack)


def start(hosts: Hosts, name: str, secret: str | Sequence[str]) -> Hotseat:
    together = {"all": {"swap": False, "members": list(MODELS[name])}}
    return hosts.start(name, MODELS[name], {"secret": secret}, logFormat="text", groups=together)


@contextmanager
def asked_all_the_time(host: Hotseat, model: str) -> Iterator[list[int]]:
    """What a client is answered that asks again and again."""
    statuses: list[int] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(PAUSE_S):
            statuses.append(host.chat(model).status)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield statuses
    finally:
        is_over.set()
        asking.join()


def test_a_secret_is_replaced_while_requests_are_served(hosts: Hosts) -> None:
    """Both stand on each host for a while, one host after the other: each finds the others' models all the time."""
    for name in "ab":
        start(hosts, name, OLD)
    hosts.until_connected()
    statuses: list[int] = []
    for name, secret in [("a", [NEW, OLD]), ("b", [NEW, OLD]), ("b", NEW), ("a", NEW)]:
        other = hosts["b" if name == "a" else "a"]
        with asked_all_the_time(other, "both") as answered:
            hosts[name].terminate()
            start(hosts, name, secret)
            eventually(lambda: all(names_at(hosts[each]) == EVERYTHING for each in "ab"), within=CONNECT_S)
            statuses += [hosts[each].chat(model).status for each in "ab" for model in sorted(EVERYTHING)]
        statuses += answered

    assert set(statuses) == {200}


def test_a_host_with_another_secret_is_logged_and_sent_nothing(hosts: Hosts) -> None:
    """It serves its own clients, the others theirs, and both logs say what to do."""
    start(hosts, "a", OLD)
    start(hosts, "b", NEW)
    eventually(lambda: all("connected to the fleet" in hosts[name].log() for name in "ab"), within=CONNECT_S)
    warning = "WARNING ignored a record without a valid signature key=hosts/"
    eventually(lambda: f"{warning}b" in hosts["a"].log() and f"{warning}a" in hosts["b"].log(), within=CONNECT_S)

    assert names_at(hosts["a"]) == {"near", "both"}
    assert [hosts["a"].chat(model).status for model in ("near", "both", "far")] == [200, 200, 404]
    assert [hosts["b"].chat(model).status for model in ("far", "both", "near")] == [200, 200, 404]
    assert "fleet.secret" in hosts["a"].log()
