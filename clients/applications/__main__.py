"""`python -m clients.applications [NAME...]`: runs the named applications; without names, all, and writes the page."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from clients.applications.application_list import ON_DEMAND, TESTED
from clients.applications.page import PAGE, page
from clients.applications.workspace import open_workspace
from clients.matrix import surprises
from clients.situations import ClientFailure

if TYPE_CHECKING:
    from clients.applications.application_list import Application


def main(names: list[str]) -> int:
    chosen = [application for application in (*TESTED, *ON_DEMAND) if not names or application.name in names]
    news = [line for application in chosen for line in report(application)]
    if news or not chosen:
        return 1
    if not names:
        PAGE.write_text(page(chosen))
    return 0


def report(application: Application) -> list[str]:
    application.install()
    news = list(surprises(application, failures(application)))
    print(f"{application.name} {application.version}:", *(news or ["as expected"]), sep="\n  ", flush=True)
    return news


def failures(application: Application) -> dict[str, str]:
    """By the name of a step: what the application did instead of what its user needs."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_workspace(Path(folder)) as workspace,
        application.open(workspace) as session,
    ):
        for step in application.steps:
            try:
                step(session)
            except ClientFailure as failure:
                found[step.__name__] = str(failure)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
