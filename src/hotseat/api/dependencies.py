"""FastAPI dependencies of the routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from hotseat.activity.usage import HELD, Account
from hotseat.api.deps import ApiDeps
from hotseat.errors import Forbidden


def deps_of(request: Request) -> ApiDeps:
    deps: ApiDeps = request.app.state.deps
    return deps


Here = Annotated[ApiDeps, Depends(deps_of)]


def account_of(request: Request, here: Here) -> Account | None:
    """The account of the admitted key; None if no keys are configured."""
    held = request.headers.get(HELD)
    if held is None:
        return None
    for account in here.accounts():
        if account.digest.hex() == held:
            return account
    raise Forbidden("this API key was just revoked")


Asker = Annotated[Account | None, Depends(account_of)]


def check_may_act_on_all(asker: Asker) -> None:
    if asker is not None:
        asker.check_may_act_on_all()


FOR_ALL_MODELS = Depends(check_may_act_on_all)
"""For routes that stop, hide or move models that the caller did not name."""
