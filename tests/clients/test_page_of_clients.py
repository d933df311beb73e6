"""The page of clients matches the list, and a client whose behaviour changed is noticed."""

from __future__ import annotations

from clients.client_list import ON_DEMAND, TESTED, Client
from clients.matrix import Row
from clients.page import PAGE, page
from clients.situations import SITUATIONS

CAREFUL = Client("careful", (), {})
HASTY = Client("hasty", (), {"cancel": "Never leaves."})


def test_the_page_is_that_of_the_roster() -> None:
    """Every client has its row, and every limit is on the page."""
    text = PAGE.read_text()
    missing = [client.name for client in (*TESTED, *ON_DEMAND) if f"| {client.name} |" not in text]
    untold = [limit for client in (*TESTED, *ON_DEMAND) for limit in client.limits.values() if limit not in text]

    assert missing == [], "run `just clients`"
    assert untold == [], "run `just clients`"


def test_a_limit_becomes_a_note() -> None:
    """The cell of a limit links to its note, the other cells are ticked."""
    text = page([Row(CAREFUL, "1.0", 600.0, {}), Row(HASTY, "2.0", None, {"cancel": "left after 9 s"})])

    ticks = "✓ | " * (len(SITUATIONS) - 1)
    assert f"| careful | 1.0 | 600 s | {ticks}✓ |" in text
    assert f"| hasty | 2.0 | none | {ticks}(1) |" in text
    assert text.endswith("\n1. Never leaves.\n")


def test_a_known_limit_is_no_surprise() -> None:
    """A client that behaves as listed is not reported."""
    assert list(Row(HASTY, "2.0", None, {"cancel": "left after 9 s"}).surprises()) == []


def test_a_new_failure_is_a_surprise() -> None:
    """The report has the situation and what the client did."""
    row = Row(CAREFUL, "1.1", 600.0, {"full_queue": "asked once"})

    assert list(row.surprises()) == ["careful in full_queue: asked once"]


def test_a_limit_that_is_gone_is_a_surprise() -> None:
    """The list must not keep a limit that a client no longer has."""
    (surprise,) = Row(HASTY, "2.1", None, {}).surprises()

    assert surprise.startswith("hasty in cancel: does what its user needs")
