"""The policies of other programs, taken from their code, with the same `handle` as the production scheduler.

`fifo` is the naive proxy; `collate` is llama-swap and llama.cpp's router: ready models are served at once, a swap
begins when its least recently used victims are idle; `ollama` has one pending load, at the head of the queue, and
takes idle victims by name. They know each model's memory and load time; none of them looks ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scheduling.peer import ModelState, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import ModelName


def fifo(peer: Peer) -> None:
    """Strict arrival order: the first in the queue is served before any other."""
    for ticket, name in list(peer.line.items()):
        if peer.states[name] is ModelState.READY:
            peer.admit(ticket)
            continue
        if peer.states[name] is ModelState.OFF:
            swap(peer, name, least_recent(peer, peer.in_state(ModelState.READY)))
        return


def collate(peer: Peer) -> None:
    for name in peer.wanted():
        if peer.states[name] is ModelState.READY:
            peer.admit_all(name)
        elif peer.states[name] is ModelState.OFF:
            swap(peer, name, least_recent(peer, idle(peer)))


def ollama(peer: Peer) -> None:
    is_blocked = bool(peer.in_state(ModelState.PROMISED, ModelState.LOADING))
    for name in peer.wanted():
        if peer.states[name] is ModelState.READY:
            peer.admit_all(name)
        elif not is_blocked:
            is_blocked = True
            if peer.states[name] is ModelState.OFF:
                swap(peer, name, sorted(idle(peer)))


def idle(peer: Peer) -> list[ModelName]:
    return [name for name in peer.in_state(ModelState.READY) if not peer.in_flight[name]]


def least_recent(peer: Peer, names: Iterable[ModelName]) -> list[ModelName]:
    return sorted(names, key=lambda name: (peer.last_used[name], name))


def swap(peer: Peer, wanted: ModelName, order: list[ModelName]) -> None:
    """Load `wanted` in place of the fewest of `order`, taken from its front, if that is enough."""
    victims: list[ModelName] = []
    candidates = iter(order)
    while not peer.fits(wanted, victims):
        victim = next(candidates, None)
        if victim is None:
            return
        victims.append(victim)
    for victim in list(victims):
        others = [other for other in victims if other != victim]
        if peer.fits(wanted, others):
            victims = others
    peer.swap(wanted, victims)


RULES: dict[str, Callable[[Peer], None]] = {"fifo": fifo, "collate": collate, "ollama": ollama}


def peer(rule: str, catalog: Catalog) -> Peer:
    return Peer(catalog, RULES[rule])
