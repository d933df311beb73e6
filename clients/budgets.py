"""`python -m clients.budgets`: OpenAI's client and LiteLLM with a key whose budget is used up."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clients.caller import calling
from clients.client_list import ON_DEMAND, TESTED
from clients.rig import model, whole_answer
from tests.support.hotseat import Hotseat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clients.caller import Outcome
    from clients.client_list import Client

CHOSEN = ("openai-python 3", "litellm")
RENEWED_KEY, SPENT_KEY, ADMIN_KEY = "key-with-a-short-budget", "key-with-a-spent-budget", "key-of-the-operator"
AT_ONCE = 2
MOST_ROUNDS = 20


@contextmanager
def open_hotseat(folder: Path) -> Iterator[Hotseat]:
    """One key may ask once in a second, and the other once in a day; that is done."""
    record = folder / "record.jsonl"
    record.touch()
    keys = [
        {"key": RENEWED_KEY, "name": "renewed", "requests": "1/s"},
        {"key": SPENT_KEY, "name": "spent", "requests": "1/day"},
        {"key": ADMIN_KEY, "name": "operator", "role": "admin"},
    ]
    with Hotseat({"apiKeys": keys, "models": {"good": model("good", "", record)}}, folder) as hotseat:
        assert hotseat.chat("good", Authorization=f"Bearer {SPENT_KEY}").status == 200
        yield hotseat


def refused(hotseat: Hotseat, name: str) -> int:
    keys = hotseat.call("GET", "/hotseat/keys", Authorization=f"Bearer {ADMIN_KEY}").json()["keys"]
    return int(next(key["refused"] for key in keys if key["name"] == name))


def meet_a_budget(client: Client, hotseat: Hotseat) -> list[Outcome]:
    """Callers that ask at once, until one of them was refused; the client itself tries again."""
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        variables = {"HOTSEAT_KEY": RENEWED_KEY}
        callers = [stack.enter_context(calling(client.argv, hotseat.url, **variables)) for _ in range(AT_ONCE)]
        for _ in range(MOST_ROUNDS):
            for caller in callers:
                caller.begin("ask", "good")
            outcomes += [caller.outcome() for caller in callers]
            if refused(hotseat, "renewed"):
                break
    return outcomes


def meet_a_spent_budget(client: Client, hotseat: Hotseat) -> Outcome:
    with calling(client.argv, hotseat.url, HOTSEAT_KEY=SPENT_KEY) as caller:
        return caller.ask("good")


def check(client: Client) -> None:
    """Raises AssertionError if the client does not do what its user needs."""
    with tempfile.TemporaryDirectory() as folder, open_hotseat(Path(folder)) as hotseat:
        outcomes = meet_a_budget(client, hotseat)
        assert refused(hotseat, "renewed"), "no request was refused"
        assert {outcome.text for outcome in outcomes} == {whole_answer("good")}, outcomes
        spent = meet_a_spent_budget(client, hotseat)
        assert "this API key is limited to 1 request per day" in (spent.error or ""), spent
        assert refused(hotseat, "spent") == 1, f"it asked {refused(hotseat, 'spent')} times in vain"


def main() -> int:
    for client in (client for client in (*TESTED, *ON_DEMAND) if client.name in CHOSEN):
        client.install()
        check(client)
        print(f"{client.name}: tries again when its budget is renewed, and reports one that is spent for the day")
    return 0


if __name__ == "__main__":
    sys.exit(main())
