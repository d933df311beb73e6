"""`hotseat usage`: what was used, as a table, JSON and CSV."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hotseat.activity.recent import Tokens
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from tests.support.command_line import CommandLine


@pytest.fixture
def used(command_line: CommandLine) -> CommandLine:
    for key, tokens in (("ann", Tokens(10, 3, None, cached=4)), ("bob", Tokens(20, 5, None)), ("bob", None)):
        command_line.rig.usage.count(ModelName("qwen"), key, tokens, estimated=0 if tokens else 70)
    return command_line


async def test_usage_is_a_table_with_totals(used: CommandLine) -> None:
    """By model and key, with a sentence about what is unknown."""
    said = await used.type("usage")

    head, ann, bob, total, *rest = [line.split() for line in said.out.splitlines()]
    assert " ".join(head) == "MODEL KEY REQUESTS UNKNOWN PROMPT TOKENS CACHED COMPLETION TOKENS ESTIMATED"
    assert ann == ["qwen", "ann", "1", "0", "10", "4", "3", "0"]
    assert bob == ["qwen", "bob", "2", "1", "20", "0", "5", "70"]
    assert total == ["total", "3", "1", "30", "4", "8", "70"]
    assert "The tokens of 1 request are unknown" in " ".join(rest[-1])


async def test_several_requests_may_be_unknown(used: CommandLine) -> None:
    """Their number is in the sentence."""
    used.rig.usage.count(ModelName("qwen"), "ann", None)

    assert "The tokens of 2 requests are unknown" in (await used.type("usage")).out


async def test_usage_may_be_by_day(used: CommandLine) -> None:
    """--by may be repeated; nothing is said about unknown tokens where there are none."""
    used.rig.usage.take()
    used.rig.usage.count(ModelName("qwen"), "ann", Tokens(10, 3, None))
    said = await used.type("usage", "--by", "day", "--by", "key", "--days", "2")

    assert said.out.split()[:2] == ["DAY", "KEY"]
    assert "are unknown" not in said.out


async def test_usage_is_exported(used: CommandLine) -> None:
    """With --json as the API sends it, and with --csv for a spreadsheet."""
    answer = json.loads((await used.type("usage", "--by", "model", "--json")).out)
    exported = (await used.type("usage", "--by", "key", "--csv")).out

    assert [(row["model"], row["requests"]) for row in answer["usage"]] == [("qwen", 3)]
    assert exported.splitlines()[1:] == ["ann,1,0,10,4,3,0", "bob,2,1,20,0,5,70"]
