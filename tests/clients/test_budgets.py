"""A real client with a key whose budget is used up; `python -m clients.budgets` tests LiteLLM as well."""

from __future__ import annotations

from clients.budgets import CHOSEN, check
from clients.client_list import TESTED


def test_openais_client_meets_a_budget() -> None:
    """It tries again after `Retry-After` and succeeds; a day's budget that is used up is an error at once."""
    (client,) = (client for client in TESTED if client.name in CHOSEN)

    check(client)
