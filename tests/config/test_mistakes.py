"""Every error has a position, a message and a fix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hotseat.config.load import read
from hotseat.config.problems import ConfigError, ConfigProblem, Severity, dotted
from hotseat.config.schema import Config

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

SAMPLES = Path(__file__).parent / "samples"
MODEL = "models: {m: {cmd: 'server ${PORT}'}}\n"


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        read([path], environ={})
    return [str(problem).replace(str(path), path.name) for problem in refused.value.problems]


def test_a_file_full_of_mistakes_shows_all_of_them_at_once() -> None:
    """The golden list: each kind of error with its exact line, column and message."""
    golden = (SAMPLES / "mistakes.golden").read_text(encoding="utf-8").splitlines()

    assert problems_of(SAMPLES / "mistakes.yaml") == golden


def test_a_problem_reads_as_editors_and_people_expect() -> None:
    """file:line:column, severity, path, what is wrong, and what to do."""
    problem = ConfigProblem(
        Severity.ERROR, "config.yaml", 5, 5, "models.qwen.tll", "unknown key", 'Did you mean "ttl"?'
    )

    assert str(problem) == 'config.yaml:5:5: error: models.qwen.tll: unknown key. Did you mean "ttl"?'


def test_paths_are_written_so_that_they_can_be_found() -> None:
    """Words with dots, list indexes, and odd names in brackets."""
    assert dotted(("models", "qwen2.5-7b", "aliases", 0)) == 'models["qwen2.5-7b"].aliases[0]'
    assert dotted(("a-b", "c_d")) == "a-b.c_d"


def test_the_error_carries_the_problems_and_their_text() -> None:
    """A caller can show it as it is or use its parts."""
    with pytest.raises(ConfigError) as refused:
        read([SAMPLES / "nowhere.yaml"], environ={})

    [problem] = refused.value.problems
    assert problem.message == "the file cannot be read: No such file or directory"
    assert str(refused.value) == refused.value.message == str(problem)


JUNK: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6) | st.just("${x}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
TOP_KEYS = st.sampled_from(sorted(Config.known_keys()))


@settings(max_examples=150, deadline=None)
@given(
    document=st.dictionaries(TOP_KEYS, JUNK, max_size=4), keys=st.dictionaries(st.text(max_size=5), JUNK, max_size=3)
)
def test_any_junk_is_read_or_gives_an_error_with_its_place(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any], keys: dict[str, Any]
) -> None:
    """Reading any file ends with a result or with errors that have a position."""
    file = tmp_path_factory.getbasetemp() / "junk.yaml"
    models = {"m": {"cmd": "server ${PORT}", **keys}}
    file.write_text(yaml.safe_dump({"models": models, **document}, allow_unicode=True), encoding="utf-8")
    try:
        problems = read([file], environ={}).problems
    except ConfigError as error:
        problems = error.problems

        assert any(problem.severity is Severity.ERROR for problem in problems)
    assert all(problem.line >= 1 and problem.column >= 1 and problem.message for problem in problems)


def test_two_mistakes_in_one_list_are_two_problems(files: ConfigFiles) -> None:
    """The list is removed after the first error, and the second is still reported."""
    assert files.mistakes("models: {m: {cmd: 's ${PORT}'}}\nallowedHosts: [~, ~]") == [
        "config.yaml:2:16: error: allowedHosts[0]: must be a string, not nothing",
        "config.yaml:2:19: error: allowedHosts[1]: must be a string, not nothing",
    ]


def test_the_name_of_a_request_is_nobodys_name(tmp_path: Path) -> None:
    """Each request would count as another client."""
    file = tmp_path / "config.yaml"
    file.write_text(MODEL + "clientHeader: x-request-ID\n")

    assert problems_of(file) == ["config.yaml:2:1: error: clientHeader: X-Request-Id identifies requests, not clients"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("signIn: {userHeader: X-User}", "signIn: has no effect without trustedProxies"),
        ("signIn: {}", "signIn.userHeader: is missing"),
        (
            "signIn: {userHeader: Authorization}",
            "signIn.userHeader: must be the name of a header of its own",
        ),
        ("signIn: {userHeader: X-Forwarded-For}", "signIn.userHeader: must be the name of a header"),
        ("signIn: {userHeader: X-A b}", "signIn.userHeader: must be the name of a header of its own"),
        (
            "trustedProxies: [10.0.0.1]\nsignIn: {userHeader: X-User, roleHeader: x-user}",
            "signIn.roleHeader: is also the header of the user",
        ),
    ],
)
def test_a_sign_in_that_would_prove_nothing(tmp_path: Path, text: str, expected: str) -> None:
    """Headers that anybody may send, or that mean something else, are refused."""
    file = tmp_path / "config.yaml"
    file.write_text(MODEL + text)

    assert [problem for problem in problems_of(file) if f" error: {expected}" in problem] != []
