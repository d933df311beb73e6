"""`hotseat fleet restart`: in which order, when it stops, and what it says then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from hotseat.cli import restart
from hotseat.cli.client import Refused, Server
from hotseat.cli.problems import Problem
from hotseat.cli.restart import restart_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

FLEET = {"host": "gpu2", "connection": "connected", "hosts": [{"host": name} for name in ("gpu1", "gpu2", "gpu3")]}
NOT_JOINED = Refused(409, "this host is not in a fleet", {})


@dataclass(frozen=True)
class Fleet(Server):
    """A host that answers as it is told, and notes what it was asked to do."""

    done: list[str] = field(default_factory=list)
    fails: str = ""
    """The host whose restart fails."""
    states: Iterator[object] = field(default_factory=lambda: iter(()))
    """What it says about the fleet after its own restart; then that it is connected."""

    def ask(self, method: str, path: str, **query: object) -> Any:
        if path == "/hotseat/fleet":
            said = next(self.states, FLEET) if "gpu2" in self.done else FLEET
            if isinstance(said, Exception):
                raise said
            return said
        host = path.split("/")[-2]
        self.done.append(host)
        if host == self.fails:
            raise Refused(503, f"{host} did not restart: no space left", {})
        return {"status": "ok", "message": f"{host} has restarted"}

    wait = ask


@pytest.fixture(autouse=True)
def own_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def restart_server(server: Fleet) -> None:
        server.done.append("gpu2")

    monkeypatch.setattr(restart, "restart", restart_server)
    monkeypatch.setattr(restart, "FLEET_LOOK_S", 0.0)


def test_all_hosts_the_asked_one_last(capsys: pytest.CaptureFixture[str]) -> None:
    """Without names all hosts are meant; each has a line when it begins, and one when it is done."""
    fleet = Fleet("http://gpu2")
    restart_hosts(fleet, [])

    assert fleet.done == ["gpu1", "gpu3", "gpu2"]
    out, err = capsys.readouterr()
    assert out == "gpu1 has restarted\ngpu3 has restarted\ngpu2 has restarted\n"
    assert err == "restarting gpu1 (1 of 3)\nrestarting gpu3 (2 of 3)\nrestarting gpu2 (3 of 3)\n"


@pytest.mark.parametrize(
    ("named", "order"),
    [(["gpu3", "gpu1"], ["gpu3", "gpu1"]), (["gpu2", "gpu3"], ["gpu3", "gpu2"]), (["gpu1", "gpu1"], ["gpu1"])],
)
def test_some_hosts(named: list[str], order: list[str]) -> None:
    """The order is that of the command line, except that the asked host is the last; each restarts once."""
    fleet = Fleet("http://gpu2")
    restart_hosts(fleet, named)

    assert fleet.done == order


def test_a_host_that_nobody_knows_is_noticed_first() -> None:
    """Nothing is restarted because of a typing mistake."""
    fleet = Fleet("http://gpu2")
    with pytest.raises(Problem, match=r'named "gpu33"\. Did you mean "gpu3"\? Nothing was restarted\.'):
        restart_hosts(fleet, ["gpu1", "gpu33"])

    assert fleet.done == []


def test_a_failure_ends_it() -> None:
    """The message names the host, its reason, and those that were not restarted."""
    fleet = Fleet("http://gpu2", fails="gpu1")
    with pytest.raises(Problem) as problem:
        restart_hosts(fleet, [])

    assert fleet.done == ["gpu1"]
    assert str(problem.value) == "gpu1: gpu1 did not restart: no space left\nnot restarted: gpu3, gpu2"


def test_a_failure_that_does_not_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Each failure has a line when it happens, and the message at the end names the hosts that failed."""
    fleet = Fleet("http://gpu2", fails="gpu1")
    with pytest.raises(Problem, match=r"^1 of 3 hosts failed: gpu1$"):
        restart_hosts(fleet, [], keep_going=True)

    assert fleet.done == ["gpu1", "gpu3", "gpu2"]
    assert "gpu1: gpu1 did not restart: no space left\nrestarting gpu3 (2 of 3)\n" in capsys.readouterr().err


def test_nothing_fails_with_keep_going(capsys: pytest.CaptureFixture[str]) -> None:
    """It is as without."""
    restart_hosts(Fleet("http://gpu2"), ["gpu3"], keep_going=True)

    assert capsys.readouterr().out == "gpu3 has restarted\n"


def test_the_last_host_fails() -> None:
    """All others are done."""
    with pytest.raises(Problem) as problem:
        restart_hosts(Fleet("http://gpu2", fails="gpu3"), ["gpu1", "gpu3"])

    assert str(problem.value) == "gpu3: gpu3 did not restart: no space left"


def test_the_asked_host_joins_later(capsys: pytest.CaptureFixture[str]) -> None:
    """Its new process answers before it is in the fleet."""
    states = iter([NOT_JOINED, {"connection": "joining"}])
    restart_hosts(Fleet("http://gpu2", states=states), ["gpu2"])

    assert capsys.readouterr().out == "gpu2 has restarted\n"
    assert next(states, None) is None


def test_the_asked_host_does_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a failure, as for any other host."""
    monkeypatch.setattr(restart, "BACK_S", -1.0)
    with pytest.raises(Problem, match="gpu2: it has restarted, but was not back in the fleet"):
        restart_hosts(Fleet("http://gpu2", states=iter([{"connection": "disconnected"}])), ["gpu2"])


def test_the_asked_host_refuses_to_say() -> None:
    """An error that is not about the fleet is the answer."""
    with pytest.raises(Problem, match="gpu2: no key"):
        restart_hosts(Fleet("http://gpu2", states=iter([Refused(401, "no key", {})])), ["gpu2"])
