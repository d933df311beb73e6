"""The small applications, run as their users run them; `just applications` runs the large ones and writes the page."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from clients.applications.application_list import ON_DEMAND, TESTED, Application
from clients.applications.page import PAGE, page
from clients.applications.steps import STEPS
from clients.applications.workspace import open_workspace
from clients.situations import ClientFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clients.applications.steps import Session


@pytest.fixture(scope="module", params=TESTED, ids=lambda application: application.name)
def application(request: pytest.FixtureRequest) -> Application:
    return request.param  # type: ignore[no-any-return]  # pytest does not know the type


@pytest.fixture(scope="module")
def session(application: Application, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_workspace(tmp_path_factory.mktemp("hotseat")) as workspace, application.open(workspace) as session:
        yield session


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_an_application_does_what_its_user_needs(
    application: Application, session: Session, step: Callable[[Session], None]
) -> None:
    """The step succeeds, unless the application is known not to do it; then it still does not."""
    limited = step.__name__ in application.limits

    with pytest.raises(ClientFailure) if limited else nullcontext():
        step(session)


def test_the_page_is_that_of_the_list() -> None:
    """Versions, connections and limits on the page are those with which the applications are run."""
    assert PAGE.read_text() == page((*TESTED, *ON_DEMAND)), "run `just applications`"
