"""The data of coverage does not depend on which test a worker runs last."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest
from coverage import Coverage
from tests.support.counting import Counting


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_worker_ends_with_a_test_that_is_counted_or_not(is_counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped coverage is not the current one any more, and is saved all the same."""
    current = create_autospec(Coverage, instance=True)
    monkeypatch.setattr(Coverage, "current", lambda: current)
    counting = Counting()
    counting.switch(is_counted)
    monkeypatch.setattr(Coverage, "current", lambda: current if is_counted else None)
    counting.save()

    current.save.assert_called_once_with()
