"""How large the containers of objects are, whatever holds them: for tests that what a process remembers is bounded.

Give `sizes` the objects that live as long as the process, while a workload fills them that never repeats itself.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CONTAINERS = (dict, list, set, frozenset, tuple, deque)


def sizes(roots: Iterable[object]) -> Counter[str]:
    """The size of the largest container of each name: the attribute of the object of hotseat that has it."""
    found: Counter[str] = Counter()
    seen, waiting = set[int](), [("", root) for root in roots]
    while waiting:
        name, item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, CONTAINERS):
            found[name] = max(found[name], len(item))
            inner = [*item, *item.values()] if isinstance(item, dict) else list(item)
            waiting += [(f"{name}[]" if name[-2:] != "[]" else name, each) for each in inner]
        elif type(item).__module__.startswith("hotseat."):
            waiting += [(f"{type(item).__name__}.{attribute}", value) for attribute, value in attributes(item)]
    return found


def attributes(item: object) -> Iterator[tuple[str, Any]]:
    slots = [slot for kind in type(item).__mro__ for slot in kind.__dict__.get("__slots__", ())]
    fields = getattr(item, "__struct_fields__", ())
    for name in {*getattr(item, "__dict__", ()), *slots, *fields}:
        if hasattr(item, name):
            yield name, getattr(item, name)
