"""Private words that the project gave up stay away: from names in the code, and as phrases from what people read."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import pytest
from tests.support.llama import REPOSITORY

from hotseat.api.app import build
from hotseat.api.openapi import document
from hotseat.scheduling.commands import Command
from hotseat.scheduling.events import Event
from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.api.deps import ApiDeps

IN_ALL_CODE = frozenset(
    (
        "asker",
        "bed",
        "beds",
        "burial",
        "burials",
        "buried",
        "bury",
        "bystander",
        "company",
        "complain",
        "complained",
        "complaint",
        "complaints",
        "contest",
        "desk",
        "dial",
        "dialled",
        "dialler",
        "dialling",
        "diary",
        "dice",
        "dismiss",
        "dismissed",
        "door",
        "doors",
        "doubts",
        "entrant",
        "entrants",
        "envoy",
        "era",
        "errand",
        "errands",
        "farewell",
        "fellow",
        "fellows",
        "fellowship",
        "fountain",
        "greeting",
        "guest",
        "guests",
        "guide",
        "habit",
        "habits",
        "hands",
        "hear",
        "heard",
        "heir",
        "homecoming",
        "house",
        "hurried",
        "hurry",
        "keeper",
        "letdown",
        "letdowns",
        "lure",
        "manner",
        "menu",
        "mood",
        "moods",
        "nap",
        "notebook",
        "papers",
        "parrot",
        "parrots",
        "playbook",
        "playbooks",
        "puppets",
        "road",
        "room",
        "rooms",
        "roomy",
        "shelf",
        "shelves",
        "standing",
        "steward",
        "stories",
        "story",
        "stranger",
        "strangers",
        "street",
        "tallies",
        "tally",
        "thief",
        "thieves",
        "told",
        "traveller",
        "visitor",
        "visitors",
        "wanderer",
        "ward",
        "warden",
        "wards",
        "whither",
        "wish",
        "wished",
        "wishes",
        "yard",
        "yards",
    )
)
IN_SOURCES = IN_ALL_CODE | {
    "archive",
    "archivist",
    "softly",
}
PHRASES = (
    "Most tokens",
    "Who runs together",
    "Read the file again",
    "Say something; Enter sends",
    "Nothing was said yet",
    "Cut them and stop now",
    "Requests at a time",
    "Go on with new lines",
    "with another house",
    "Words of the house",
    "needs its room",
    "ask whoever keeps the configuration",
    "worth their load",
    "Come from Ollama",
    "Otherwise than in llama-swap",
    "The diary (INFO)",
    "make way",
    "make_way",
)
IN_INTERFACES = IN_SOURCES | {
    "apart",
    "counts_as",
    "crowded",
    "elsewhere",
    "habits",
    "here",
    "house",
    "naps",
    "resting",
    "shunned",
    "sleepless",
    "taken",
    "together",
    "way",
}
"""Words and whole names: neither fields of the API nor metrics, labels, error codes and files of the dashboard."""
IN_FIELDS = IN_INTERFACES | {
    "again_in_s",
    "because",
    "did",
    "do",
    "for",
    "from",
    "how",
    "in_s",
    "instead_of",
    "left",
    "lives_s",
    "mb",
    "took",
    "who",
}
"""Neither fields of log messages nor of the journal; whole fields, because `left` and `took` are parts of others."""
LOG_FIELD = re.compile(r"\b([a-z_]+)=%")
TEXTS = ("*.md", "src/**/*.py", "dashboard/src/**", "docs/**", "contrib/**", "deploy/**")
HISTORY = "CHANGELOG.md"
KIT = Path("tests/conformance")
"""Written for any proxy, in its own words."""


@pytest.mark.parametrize(
    ("folder", "retired"),
    [("src", IN_SOURCES), *((folder, IN_ALL_CODE) for folder in ("tests", "bench", "scripts", "clients"))],
)
def test_no_name_uses_a_retired_word(folder: str, retired: frozenset[str]) -> None:
    """Names of files, classes, functions and variables are made of other words."""
    found = [
        f"{path}: {name}"
        for path in tracked(f"{folder}/**/*.py")
        if path.parent != KIT
        for name in names(path)
        if words(name) & retired
    ]

    assert found == []


def test_no_field_or_value_of_the_api_uses_a_retired_word() -> None:
    """Fields, the names of schemas and the values of enumerations are made of other words."""
    schemas = document(build(cast("ApiDeps", None)))["components"]["schemas"]
    found = [name for name in names_in_schemas(schemas) if {name, *words(name)} & IN_INTERFACES]

    assert found == []


def test_no_metric_label_or_error_code_uses_a_retired_word() -> None:
    """The values of labels include the error codes and the phases."""
    labels = [word for label, (_, values) in metric_names.LABELS.items() for word in (label, *values)]
    found = [name for name in (*labels, *(each.name for each in metric_names.FIGURES)) if words(name) & IN_INTERFACES]

    assert found == []


def test_no_field_of_a_log_message_or_of_the_journal_is_retired() -> None:
    """Operators search for these fields, and dashboards read them."""
    logged = {field for path in tracked("src/**/*.py") for field in LOG_FIELD.findall((REPOSITORY / path).read_text())}
    things = (*get_args(Event), *get_args(Command))
    journal = {name for thing in things for name in thing.__struct_fields__}

    assert (logged | journal) & IN_FIELDS == set()


def test_no_file_of_the_dashboard_is_named_with_a_retired_word() -> None:
    """Neither its folders nor its files."""
    retired = IN_INTERFACES | {"ask", "line", "talk"}
    found = [path for path in tracked("dashboard/src/**") for part in path.parts if words(Path(part).stem) & retired]

    assert found == []


def test_no_text_uses_a_retired_phrase() -> None:
    """Neither the documentation nor the program says it any more."""
    found = [f"{path}: {phrase}" for path in tracked(*TEXTS) for phrase in phrases_in(path)]

    assert found == []


def tracked(*patterns: str) -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *(f":(glob){pattern}" for pattern in patterns)],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return (Path(name) for name in listed.stdout.split("\0") if name)


def names(path: Path) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO((REPOSITORY / path).read_text()).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME} | {path.stem}


def words(name: str) -> set[str]:
    """`HostSelector` and `host_selector` are both made of host and selector."""
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def names_in_schemas(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield name
        yield from schema.get("properties", {})
        yield from map(str, schema.get("enum", ()))


def phrases_in(path: Path) -> list[str]:
    if path.name == HISTORY:
        return []
    text = (REPOSITORY / path).read_text(errors="ignore")
    return [phrase for phrase in PHRASES if phrase in text]
