"""The interface of a client connection that an exchange uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant


class Client(Protocol):
    write: Callable[[bytes], None]

    @property
    def is_full(self) -> bool:
        """Is so much unread that nothing should be added?"""
        ...

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None: ...
    def exchange_ended(self, *, keep_alive: bool, now: Instant) -> None: ...
    def become_tunnel(self) -> None: ...
    def tunnel_used(self) -> None: ...
    def tunnel_ended(self) -> None: ...
    def hold(self) -> None: ...
    def go_on(self) -> None: ...
    def abort(self) -> None:
        """Reset the connection at once."""
        ...

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        """End the connection so that nobody can take the response for complete."""
        ...
