"""What it costs to translate a stream to Ollama's API: the same streams with and without that, in turn."""

from __future__ import annotations

from bench.relay.cells import Cell, Work
from bench.relay.checks import spread
from bench.relay.figures import BARE, Figure, Figures, Sample
from bench.relay.loads import CHAT
from bench.relay.measure import must_be_quiet, streams
from bench.relay.proxies.hotseat import HOTSEAT
from bench.relay.rounds import shuffled, tell
from bench.relay.running_proxies import started

STREAMS = Cell(Work.SSE, 100)
PLAIN, TRANSLATED = "plain", "ollama"
PATHS = {PLAIN: CHAT, TRANSLATED: "/api/chat"}
MOST = 2.5
"""CPU time of a translated chunk, compared with a plain one."""


def compare_translated(rounds: int) -> bool:
    """Whether a translated chunk costs little enough. Prints both; raises at a broken stream."""
    figures = Figures(measured(rounds))
    print(f"\nhotseat, {STREAMS.clients} streams, {rounds} rounds, CPU-µs per chunk: median [lowest–highest]")
    for kind in PATHS:
        print(f"{kind:<12}{spread(known(figures.get(kind, STREAMS.key, 'cpu_us')))}")
    ratio = known(figures.ratio(TRANSLATED, PLAIN, STREAMS.key, "cpu_us"))
    holds = ratio.median <= MOST
    print(f"{'ratio':<12}{spread(ratio)}{'' if holds else f'  FAILS: more than {MOST:g}'}")
    return holds


def measured(rounds: int) -> list[Sample]:
    samples = []
    with started([HOTSEAT], needs_llama=False) as programs:
        running = next(running for running in programs.proxies if running.name != BARE)
        with running.turn():
            for number in range(rounds):
                for kind, path in shuffled(list(PATHS.items())):
                    samples.append(Sample(kind, STREAMS.key, number, streams(running, STREAMS, path)))
                    tell(samples[-1])
                    must_be_quiet(running)
        programs.must_live()
    return samples


def known(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure
