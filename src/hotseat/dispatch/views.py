"""The scheduler's views as of now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.identifiers import Instant, ModelName
    from hotseat.scheduling.questions import Questions
    from hotseat.scheduling.view import ModelView, View


class Views:
    def __init__(self, questions: Callable[[], Questions], clock: Callable[[], Instant]) -> None:
        self._questions, self._clock = questions, clock

    def current(self) -> View:
        """Without cold models that have not failed and that no request waits for."""
        return self._questions().view(self._clock())

    def of_all(self) -> View:
        """With every model: for lists of all models."""
        return self._questions().view_of_all(self._clock())

    def of_each(self, view: View) -> Iterator[ModelView]:
        """Every model in turn, as in the view if it is there: for lists that are made in slices."""
        return self._questions().view_of_each(view)

    def of(self, model: ModelName) -> ModelView:
        """One model, cold or not."""
        return self._questions().view_of(model, self._clock())

    def why(self, model: ModelName) -> str:
        """One sentence: why its requests wait."""
        return self._questions().why(model, self._clock())
