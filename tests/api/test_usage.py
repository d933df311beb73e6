"""GET /hotseat/usage: requests and tokens by day, model and key."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hotseat.activity.recent import Tokens
from hotseat.activity.usage_store import DAY_S, FIRST_DAY, Place, UsageStore, Used
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.management import Management

DAY = int(time.time()) // DAY_S - 10
FIRST = (FIRST_DAY + timedelta(days=DAY)).isoformat()
SECOND = (FIRST_DAY + timedelta(days=DAY + 1)).isoformat()
COUNTS = {
    "requests": 2,
    "unknown": 0,
    "prompt_tokens": 20,
    "cached_tokens": 8,
    "completion_tokens": 6,
    "estimated_tokens": 4,
}


@pytest.fixture
def used(rig: Management, tmp_path: Path) -> Management:
    """Two days, two models, two keys."""
    [file] = {rig.usage_writer._store.file.path}
    places = [(DAY, "qwen", "ann"), (DAY, "qwen", "bob"), (DAY + 1, "org/llama", "ann")]
    UsageStore(file).add({Place(day, ModelName(model), key): Used(2, 0, 20, 8, 6, 4) for day, model, key in places})
    return rig


async def test_usage_is_listed_with_its_total(used: Management) -> None:
    """Each row says what it is for; what it is not by is null."""
    answer = (await used.get("/hotseat/usage", params={"since": FIRST, "until": SECOND, "by": "key"})).json()

    assert (answer["since"], answer["until"]) == (FIRST, SECOND)
    assert answer["usage"] == [
        {**{name: 2 * count for name, count in COUNTS.items()}, "day": None, "model": None, "key": "ann"},
        {**COUNTS, "day": None, "model": None, "key": "bob"},
    ]
    assert answer["total"] == {name: 3 * count for name, count in COUNTS.items()}


async def test_usage_is_by_several_things_at_once(used: Management) -> None:
    """A day at the end of the time is included, and one after it is not."""
    answer = (await used.get(f"/hotseat/usage?since={FIRST}&until={FIRST}&by=day&by=model")).json()

    assert [(row["day"], row["model"], row["key"]) for row in answer["usage"]] == [(FIRST, "qwen", None)]


async def test_usage_is_of_the_last_thirty_days_unless_others_are_asked_for(rig: Management) -> None:
    """It has what was counted a moment ago, by model and key."""
    today = int(time.time()) // DAY_S
    rig.usage.count(ModelName("qwen"), "", Tokens(10, 3, None))
    for days, model in ((28, "of the first days"), (31, "too old")):
        rig.usage_writer._store.add({Place(today - days, ModelName(model), "ann"): Used(1)})
    answer = (await rig.get("/hotseat/usage")).json()

    assert [(row["model"], row["key"]) for row in answer["usage"]] == [("of the first days", "ann"), ("qwen", "")]


async def test_usage_is_exported_as_csv(used: Management) -> None:
    """Only the columns asked for, in a fixed order, and the counts."""
    query = f"since={FIRST}&by=key&by=day&format=csv&until={SECOND}"
    answer = await used.get(f"/hotseat/usage?{query}")

    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text == (
        "day,key,requests,unknown,prompt_tokens,cached_tokens,completion_tokens,estimated_tokens\n"
        f"{FIRST},ann,2,0,20,8,6,4\n{FIRST},bob,2,0,20,8,6,4\n{SECOND},ann,2,0,20,8,6,4\n"
    )


async def test_more_rows_than_anybody_reads_are_refused(used: Management, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of them would look like all of them."""
    monkeypatch.setattr("hotseat.api.routes.usage.MOST_ROWS", 2)
    answer = await used.get(f"/hotseat/usage?since={FIRST}&until={SECOND}")

    assert (answer.status_code, "ask for fewer days" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("query", ["by=colour", "since=yesterday", "until=0001-01-01", "format=xml"])
async def test_what_is_not_understood_is_an_error(rig: Management, query: str) -> None:
    """It names the parameter."""
    answer = await rig.get(f"/hotseat/usage?{query}")

    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]
