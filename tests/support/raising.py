"""Collaborators that raise: counts all calls and makes one of them fail, before or after it did its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER: Final = -1


class Raised(Exception):
    """Stands for a bug in a collaborator."""


class Calls:
    def __init__(self, raising: int = NEVER, when: str = "before") -> None:
        self.made: list[str] = []
        self.are_counted = True
        self.has_raised = False
        self._raising, self._when = raising, when

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            number = self._count(name)
            self._raise(number, "before")
            result = work(*args, **kwargs)
            self._raise(number, "after")
            return result

        return call

    def around_coroutine(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any) -> Any:
            number = self._count(name)
            self._raise(number, "before")
            result = await work(*args)
            self._raise(number, "after")
            return result

        return call

    def _count(self, name: str) -> int:
        if not self.are_counted:
            return len(self.made)
        self.made.append(name)
        return len(self.made) - 1

    def _raise(self, number: int, when: str) -> None:
        if (number, when) == (self._raising, self._when):
            self.has_raised = True
            raise Raised(f"call {number}, {self.made[number]}, {when} its work")
