"""GET /metrics/upstreams: the metrics pages of all ready model servers as one, each sample with its model.

Asking a server for its page is no request to a model: it starts and wakes none, takes no slot and delays no ttl.

prometheus-client has a parser too, but it appends `_total` to counters without it, of which llama-server has one, and
its time grows with the square of a line's length. Here names, values and escapes stay as they are written.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from hotseat.telemetry.metric_names import UPSTREAM_UP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from hotseat.identifiers import LaunchId, ModelName
    from hotseat.scheduling.view import View

MODEL = "model"
OWN = "hotseat_"
"""How the names of hotseat's own metrics begin; no server may print one."""
UNTYPED = "untyped"
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
"""What the names of a family's samples end in, by its type."""
NUMBERS = frozenset(("le", "quantile"))
"""Labels of their parts whose values must be numbers."""
TYPES = frozenset(("counter", "gauge", UNTYPED, *PARTS))
MOST_LINES = 20_000
"""vLLM prints about a thousand; to read this many takes half a second."""
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL = r'[ \t]*+[a-zA-Z_][a-zA-Z0-9_]*+[ \t]*+=[ \t]*+"[^"\\]*+(?:\\[\\n"][^"\\]*+)*+"[ \t]*+'
_VALUE = r"[-+]?(?:(?:[0-9]{1,99}+\.?[0-9]{0,99}+|\.[0-9]{1,99}+)(?:[eE][-+]?[0-9]{1,9}+)?|(?i:nan|inf))"
_TIMESTAMP = r"(?:[ \t]++-?[0-9]{1,18}+)?"
_LABELS = rf"[ \t]*+\{{((?:{_LABEL}(?:,{_LABEL})*+,?)?)[ \t]*+\}}[ \t]*+"
_is_number = re.compile(_VALUE).fullmatch
_LINE = re.compile(rf"({_NAME})(?:{_LABELS}|[ \t]++)({_VALUE})({_TIMESTAMP})")
_PAIR = re.compile(r'([a-zA-Z_]\w*+)[ \t]*+=[ \t]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HELP = re.compile(r"[^\\]*+(?:\\[\\n][^\\]*+)*+")
_HEADER = re.compile(rf"#[ \t]++(HELP|TYPE)[ \t]++({_NAME})(?:[ \t]++(.*))?")


class UpstreamPage:
    def __init__(self, view: Callable[[], View], ask: Callable[[LaunchId], Awaitable[str | None]]) -> None:
        """`ask` returns the page of a server; None: it has none. It has a deadline and never raises."""
        self._view, self._ask = view, ask
        self._rendering = asyncio.Lock()
        self._rendered = 0
        self._page = b""

    async def render(self) -> bytes:
        """One at a time, since a large page takes a second of processor time: who waits for it gets the same page."""
        before = self._rendered
        async with self._rendering:
            if self._rendered == before:
                self._page = await self._render()
                self._rendered += 1
            return self._page

    async def _render(self) -> bytes:
        servers = {model.name: model.launch for model in self._view().running() if model.launch is not None}
        pages = await asyncio.gather(*map(self._ask, servers.values()))
        by_model = dict(zip(servers, pages, strict=True))
        return await asyncio.to_thread(page_of, by_model)  # large pages would block the event loop


def page_of(by_model: Mapping[ModelName, str | None]) -> bytes:
    """PURE: of the pages of all servers; None: a server has none."""
    read = {model: _families_in(page) for model, page in by_model.items()}
    usable = {model: families for model, families in read.items() if families is not None}
    samples = [Sample(UPSTREAM_UP.name, ((MODEL, escaped(model)),), str(int(model in usable))) for model in by_model]
    own = Family(UPSTREAM_UP.kind.value, UPSTREAM_UP.meaning, samples)
    return printed({UPSTREAM_UP.name: own, **merged(usable.items(), MODEL)}).encode()


def _families_in(page: str | None) -> dict[str, Family] | None:
    """Without what only hotseat may print; None: it is no page of metrics."""
    if page is None:
        return None
    try:
        families = families_of(page)
    except NotPrometheusText:
        return None
    return {name: family for name, family in families.items() if not _is_own(name, family)}


def _is_own(name: str, family: Family) -> bool:
    """A histogram `hotseat` would print `hotseat_sum`."""
    return any(each.startswith(OWN) for each in (name, *(sample.name for sample in family.samples)))


class NotPrometheusText(ValueError):
    """The page is not in this format, or Prometheus would refuse it."""


class Sample(NamedTuple):
    name: str
    labels: tuple[tuple[str, str], ...]
    """Values as they are written, with escapes."""
    value: str
    """With its timestamp, if it has one."""

    def __str__(self) -> str:
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"{self.name}{{{labels}}} {self.value}"

    def labelled(self, name: str, value: str) -> Sample:
        """With one more label; the server's own label of that name gets a prefix, as when Prometheus adds a label."""
        taken = {known for known, _ in self.labels}
        renamed = name
        while renamed in taken:
            renamed = f"exported_{renamed}"
        own = [(renamed if known == name else known, written) for known, written in self.labels]
        return self._replace(labels=((name, escaped(value)), *own))


@dataclass(slots=True)
class Family:
    """The samples of one metric."""

    type: str = UNTYPED
    help: str = ""
    """As it is written, with escapes."""
    samples: list[Sample] = field(default_factory=list)

    def lines(self, name: str) -> Iterator[str]:
        if self.help:
            yield f"# HELP {name} {self.help}"
        if self.type != UNTYPED:
            yield f"# TYPE {name} {self.type}"
        yield from map(str, self.samples)


def families_of(page: str) -> dict[str, Family]:
    """The families of a page by their names; raises NotPrometheusText."""
    lines = page.split("\n")
    if len(lines) > MOST_LINES or _CONTROL.search(page):
        raise NotPrometheusText("it has too many lines, or a control character")
    families: dict[str, Family] = {}
    for line in (each.strip(" \t") for each in lines):
        if line.startswith("#"):
            _read_comment(line, families)
        elif line:
            sample = _sample(line)
            families.setdefault(_family_of(sample.name, families), Family()).samples.append(sample)
    return families


def merged(pages: Iterable[tuple[str, Mapping[str, Family]]], label: str) -> dict[str, Family]:
    """All of these pages as one, each with its value of the label. A type that they disagree on is left out."""
    whole: dict[str, Family] = {}
    for origin, families in pages:
        for name, family in families.items():
            both = whole.setdefault(name, Family(family.type, family.help))
            both.type = both.type if both.type == family.type else UNTYPED
            both.samples += [sample.labelled(label, origin) for sample in family.samples]
    _settle_types(whole)
    return _regrouped(whole)


def _settle_types(whole: Mapping[str, Family]) -> None:
    """Some readers refuse the whole page if a part of a histogram or summary has a header, or a bound is no number."""
    samples = [sample for family in whole.values() for sample in family.samples]
    unbounded = {sample.name for sample in samples if not _has_bounds(sample)}
    for name in sorted(whole, key=len):  # a part has a longer name
        parts = [name + part for part in PARTS.get(whole[name].type, ())]
        if parts and not unbounded.isdisjoint((name, *parts)):
            whole[name].type, parts = UNTYPED, []
        for part in parts:
            if part in whole:
                whole[part].type, whole[part].help = UNTYPED, ""


def _regrouped(whole: Mapping[str, Family]) -> dict[str, Family]:
    """The samples of what is no histogram any more belong to the families with their own names."""
    again = {name: Family(family.type, family.help) for name, family in whole.items()}
    for name, family in whole.items():
        for sample in family.samples:
            again.setdefault(name if family.type in PARTS else sample.name, Family()).samples.append(sample)
    return again


def _has_bounds(sample: Sample) -> bool:
    bounds = [value for name, value in sample.labels if name in NUMBERS]
    return all(_is_number(bound) and _is_in_range(bound) for bound in bounds)


def printed(families: Mapping[str, Family]) -> str:
    return "".join(f"{line}\n" for name, family in families.items() for line in family.lines(name))


def escaped(value: str) -> str:
    """As a label's value is written."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read_comment(line: str, families: dict[str, Family]) -> None:
    if (header := _HEADER.fullmatch(line)) is None:
        return
    what, name, said = header.groups(default="")
    family = families.setdefault(name, Family())
    if what == "HELP":
        family.help = said if _HELP.fullmatch(said) else ""  # some readers refuse a page with another escape
    elif said in TYPES:
        family.type = said
    else:
        raise NotPrometheusText(f"{said[:40]!r} is not a type of a metric")


def _sample(line: str) -> Sample:
    found = _LINE.fullmatch(line)
    if found is None or not _is_in_range(found[3]):
        raise NotPrometheusText(f"{line[:80]!r} is not a sample")
    labels = tuple(_PAIR.findall(found[2] or ""))
    names = {name for name, _ in labels}
    if len(names) < len(labels) or any(name.startswith("__") for name in names):
        raise NotPrometheusText(f"{line[:80]!r} has a label twice, or one that is reserved for Prometheus")
    return Sample(found[1], labels, found[3] + found[4])


def _is_in_range(value: str) -> bool:
    """Prometheus refuses a number that is too large for it, but knows infinity."""
    return isfinite(float(value)) or value[-1] in "fFnN"


def _family_of(name: str, families: Mapping[str, Family]) -> str:
    """The parts of a histogram or summary belong to it; any other sample is of the family with its own name."""
    base, _, part = name.rpartition("_")
    known = families.get(base) if name not in families else None
    return base if known and f"_{part}" in PARTS.get(known.type, ()) else name
