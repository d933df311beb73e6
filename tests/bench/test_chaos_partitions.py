"""The rules that lose packets between the namespaces of a fleet, for each shape of partition."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from bench.chaos.namespaces import CLIENTS, DROP, REFUSE, SHAPES, SOMETIMES, matched, obstacle, restored, rules

if TYPE_CHECKING:
    from pathlib import Path

HOSTS, NATS = ["a", "b", "c"], ["n0", "n1"]
ADDRESSES = {name: f"at-{name}" for name in (*HOSTS, *NATS, CLIENTS)}
LOST = {
    "a host hears nothing": "b>a c>a n0>a n1>a",
    "a host is not heard": "a>b a>c a>n0 a>n1",
    "a host is out of reach": "a>b a>c b>a c>a",
    "a host is cut off from NATS": "a>n0 a>n1 n0>a n1>a",
    "a host is cut off from all": "a>b a>c a>n0 a>n1 b>a c>a n0>a n1>a",
    "a host is cut off from clients": "a>clients clients>a",
    "the fleet is cut in halves": "a>b a>c a>n1 b>a b>n0 c>a c>n0 n0>b n0>c n0>n1 n1>a n1>n0",
    "NATS' leader is cut off from its cluster": "n0>n1 n1>n0",
}


@pytest.mark.parametrize("shape", LOST)
def test_a_partition_drops_exactly_the_packets_of_its_pairs(shape: str) -> None:
    """The receiver drops them, by the sender's address: the sender cannot tell."""
    made = rules(SHAPES[shape](HOSTS, NATS), DROP, ADDRESSES)

    assert made == {
        receiver: restored(
            f"-A INPUT -s at-{pair.partition('>')[0]} -j DROP"
            for pair in LOST[shape].split()
            if pair.endswith(f">{receiver}")
        )
        for receiver in {pair.partition(">")[2] for pair in LOST[shape].split()}
    }


def test_every_shape_is_known() -> None:
    """Only the loss of some packets is not listed above: it is between all."""
    everyone = set(ADDRESSES)

    assert SHAPES.keys() - LOST.keys() == {"packets are lost"}
    assert SHAPES["packets are lost"](HOSTS, NATS) == {(a, b) for a in everyone for b in everyone if a != b}


@pytest.mark.parametrize("verdict", [DROP, REFUSE, SOMETIMES])
def test_rules_that_replace_all_others(verdict: str) -> None:
    """A second partition needs no removal of the first one."""
    assert rules({("a", "b")}, verdict, ADDRESSES) == {"b": f"*filter\n-A INPUT -s at-a {verdict}\nCOMMIT\n"}
    assert restored([]) == "*filter\nCOMMIT\n"


def test_packets_that_rules_have_matched_are_counted() -> None:
    """The counters of chains are no packets of rules."""
    saved = "*filter\n:INPUT ACCEPT [7:70]\n[12:720] -A INPUT -s 10.203.0.12/32 -j DROP\n[3:180] -A INPUT -j DROP\n"

    assert matched(saved) == 15


def test_a_machine_without_the_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence names what is missing, before anything is started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", None)

    assert obstacle() == (
        "--namespaces needs the programs ip, iptables-restore, iptables-save, mount, setpriv, unshare"
        " (Debian: iproute2, iptables, util-linux)"
    )


def test_a_user_who_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would refuse the first step."""
    monkeypatch.setattr("shutil.which", str)
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert obstacle() == "--namespaces needs root"
