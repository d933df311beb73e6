"""`hotseat activity`: finished requests as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hotseat.activity.recent import Tokens
from hotseat.identifiers import ClientId, ModelName

if TYPE_CHECKING:
    from tests.support.command_line import CommandLine


class Head:
    method, target = b"POST", b"/v1/chat/completions"


def finish(command_line: CommandLine, model: str, tokens: Tokens | None = None) -> None:
    about = (ClientId("me"), Head(), b"box-7", tokens)
    command_line.rig.activity.finished(ModelName(model), 200, 0.25, 0.5, 1.25, *about)


async def test_each_request_is_a_line(command_line: CommandLine) -> None:
    """Each line has the tokens, if known, and the source of the record."""
    finish(command_line, "qwen", Tokens(4, 20, None))
    finish(command_line, "org/llama")
    said = await command_line.type("activity")

    head, first, second, *rest = said.out.splitlines()
    assert head.split()[:3] == ["ENDED", "MODEL", "CLIENT"]
    assert first.split()[2:] == (
        ["qwen", "me", "POST", "/v1/chat/completions", "200", "0.25s", "0.5s", "1.25s", "4+20", "20.0", "box-7"]
    )
    assert second.split()[-3:] == ["-", "-", "box-7"]
    assert "set activity.keepDays to store them on disk" in rest[-1]


async def test_one_model_can_be_asked_for(command_line: CommandLine) -> None:
    """It is selected by its name, with --json; an unknown name is an error."""
    finish(command_line, "qwen")
    finish(command_line, "org/llama")
    history = json.loads((await command_line.type("activity", "--model", "org/llama", "--json")).out)

    assert [request["model"] for request in history["requests"]] == ["org/llama"]
    assert history["kept_s"] == 0
    assert "nobody" in (await command_line.type("activity", "--model", "nobody")).err


async def test_what_is_older_is_left_out(command_line: CommandLine) -> None:
    """--since limits the age; an invalid duration is an error."""
    finish(command_line, "qwen")

    assert json.loads((await command_line.type("activity", "--since", "0s", "--json")).out)["requests"] == []
    assert "must be a duration" in (await command_line.type("activity", "--since", "yesterday")).err


async def test_the_number_of_lines_can_be_limited(command_line: CommandLine) -> None:
    """--limit shows the newest requests only."""
    finish(command_line, "qwen")
    finish(command_line, "org/llama")
    history = json.loads((await command_line.type("activity", "--limit", "1", "--json")).out)

    assert [request["model"] for request in history["requests"]] == ["org/llama"]
