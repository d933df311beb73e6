"""Three hosts, three NATS servers and real llama-servers: any host answers for all, whoever is killed."""

from __future__ import annotations

import http.client
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.fleet_journey import CONNECT_S, Hosts, fleet_of, names_at, nats_cluster
from tests.support.hotseat import Hotseat
from tests.support.llama import llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import Stream

pytestmark = [pytest.mark.llama, pytest.mark.timeout(240)]

MODELS = ("alpha", "beta", "gamma")

TELLS_OF_THE_API = """
import sys

class Teller:
    def find_spec(self, name, path=None, target=None):
        if name == "hotseat.startup.management":
            print("opens its API", file=sys.stderr, flush=True)

sys.meta_path.insert(0, Teller())
"""
"""Run by every Python program that finds it; the program's log includes it."""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    models = {"alpha": llama("alpha"), "beta": llama("beta"), "gamma": llama("alpha")}
    with fleet_of(tmp_path, "a", "b", "c", models=models) as fleet:
        yield fleet


def spread(hosts: Hosts) -> dict[str, str]:
    """One model on each host, asked for through one of them; tells who has which."""
    for model in MODELS:
        assert hosts["a"].chat(model).status == 200
    where = {model: name for name, running in hosts.running().items() for model in running}
    eventually(lambda: all(loads(hosts, model) == 1 for model in MODELS))
    return where


def loads(hosts: Hosts, model: str) -> int:
    """How often it was loaded anywhere."""
    started = (f'"starting model server", "model": "{model}"', f"starting model server model={model}")
    return sum(host.log().count(sign) for host in hosts.by_name.values() for sign in started)


def times_connected(hosts: Hosts) -> int:
    """How often host a has connected."""
    return hosts["a"].log().count("connected to the fleet")


def ended_cleanly(stream: Stream) -> bool:
    try:
        return stream.read().done
    except (http.client.HTTPException, OSError):
        return False


def test_any_host_answers_for_all_models(hosts: Hosts) -> None:
    """What one host loaded serves the requests of all: three models, three hosts, three loads."""
    where = spread(hosts)
    answers = [hosts[host].chat(model) for host in "abc" for model in MODELS]

    assert sorted(where.values()) == ["a", "b", "c"]
    assert [answer.status for answer in answers] == [200] * 9
    assert [loads(hosts, model) for model in MODELS] == [1, 1, 1]


def test_many_hosts_are_asked_for_a_cold_model_at_once(hosts: Hosts) -> None:
    """Whoever claims it first decides; the others send their requests there."""
    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(lambda host: hosts[host].chat("alpha"), "abcabcabc"))

    assert [answer.status for answer in answers] == [200] * 9
    assert loads(hosts, "alpha") == 1


def test_a_host_answers_for_what_only_another_one_has(tmp_path: Path) -> None:
    """It lists the model, passes requests on, and names it where it is unknown no more."""
    with fleet_of(tmp_path, "a", nats=1, models={"alpha": llama("alpha")}) as hosts:
        hosts.start("b", {"beta": llama("beta", aliases=["second"])})
        hosts.until_connected()

        assert names_at(hosts["a"]) == {"alpha", "beta"}
        assert hosts["a"].chat("beta").status == 200
        assert hosts["a"].chat("second").status == 200
        assert hosts["a"].call("GET", "/upstream/beta/props").status == 200
        assert hosts.running() == {"a": [], "b": ["beta"]}


def test_a_host_joins_when_it_can_answer(tmp_path: Path) -> None:
    """The other hosts ask for /health as soon as they know it, so its API, which takes seconds to open, opens first."""
    (tmp_path / "sitecustomize.py").write_text(TELLS_OF_THE_API)
    with ExitStack() as stack, nats_cluster(tmp_path / "nats", 1) as nats:
        host = Hosts(tmp_path, nats, stack, Hotseat).start("a", {}, environ={"PYTHONPATH": str(tmp_path)})
        eventually(lambda: "connected to the fleet" in host.log(), within=CONNECT_S)

        assert host.log().index("opens its API") < host.log().index("connected to the fleet")


def test_a_host_is_killed_amid_a_stream(hosts: Hosts) -> None:
    """The stream breaks visibly, and the next request for the model is served by another host."""
    victim = spread(hosts)["beta"]
    asked = next(name for name in "abc" if name != victim)
    stream = hosts[asked].stream("beta", 4000)
    stream.until_it_speaks()
    hosts[victim].process.kill()
    hosts[victim].process.wait()  # until then it may take one more request, which must not be sent elsewhere

    assert not ended_cleanly(stream)
    assert hosts[asked].chat("beta").status == 200


def test_the_leader_of_nats_is_killed(hosts: Hosts) -> None:
    """What is known goes on at once; what must be agreed upon goes on when there is a new leader."""
    spread(hosts)
    hosts.nats[0].kill()

    assert [hosts[host].chat(model).status for host in "abc" for model in MODELS] == [200] * 9
    hosts["b"].call("DELETE", "/upstream/beta?force=true")
    eventually(lambda: hosts["c"].chat("beta").status == 200, within=CONNECT_S)


def test_all_of_nats_is_away(hosts: Hosts) -> None:
    """Hosts go on with what they know and can run themselves, and say that they are apart."""
    spread(hosts)
    connected = times_connected(hosts)
    for server in hosts.nats:
        server.kill()
    eventually(lambda: "disconnected from the fleet" in hosts["a"].log(), within=CONNECT_S)

    assert [hosts[host].chat(model).status for host in "abc" for model in MODELS] == [200] * 9
    for server in hosts.nats:
        server.start()
    eventually(lambda: times_connected(hosts) > connected, within=CONNECT_S)


def test_a_host_leaves_in_good_order(hosts: Hosts) -> None:
    """Nobody sees it: what was asked of it is answered, and what comes next goes elsewhere."""
    leaver = spread(hosts)["gamma"]
    asked = next(name for name in "abc" if name != leaver)
    stream = hosts[asked].stream("gamma", 60)
    stream.until_it_speaks()
    hosts[leaver].process.send_signal(signal.SIGTERM)
    answers = [hosts[asked].chat("gamma") for _ in range(3)]

    assert ended_cleanly(stream)
    assert [answer.status for answer in answers] == [200, 200, 200], [answer.body for answer in answers]
