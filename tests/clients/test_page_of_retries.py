"""The page of retries has every client, in the version that the lists name."""

from __future__ import annotations

from clients.applications.application_list import ON_DEMAND
from clients.retries import BEFORE, CLIENTS, PAGE, PROGRAMS, Asked, Figure, page


def test_the_page_is_that_of_the_lists() -> None:
    """Each client has a row for each question; programs are of the version that is run."""
    versions = {application.name: application.version for application in ON_DEMAND}
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]

    for name in (*CLIENTS, *PROGRAMS):
        assert len([line for line in rows if line.startswith(f"| {name} |")]) == len(BEFORE[name]), "run `just retries`"
    for name in PROGRAMS:
        assert f"| {name} | {versions[name]} |" in PAGE.read_text(), "run `just retries`"


def test_a_client_that_goes_on() -> None:
    """It was ended, so the page does not say when it would have given up."""
    text = page([Asked("Codex", "1.0", (Figure(1, 0.25), Figure(2, 3.0), Figure(9, None)))])

    assert "| Codex | 1.0 | 1 | 1 request, 0.2 s | 19 requests, more than 300 s |" in text
    assert "| Codex | 1.0 | 3 | 9 requests, more than 300 s |" in text
