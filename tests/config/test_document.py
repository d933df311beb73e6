"""YAML parsing: dialect, anchors, duplicates, limits and positions. Several files and directories as one document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hotseat.config.document import MAX_CHARACTERS, Document, parse
from hotseat.config.load import INIT, read
from hotseat.config.problems import ConfigError, Problems, Spot

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

FILES = [
    *(Path(__file__).parent / "samples").rglob("*.y*ml"),
    *(Path(__file__).parents[1] / "fuzz/corpus/configuration").iterdir(),
]
RARE_FORMS = ["a: [x, ]", "a: {b: , c}", "a: &b 1\nc: *b", "- - - x", "a: >\n  b\n\n  c\nd: |+\n e\n\n", "\ufeffa: 1"]


def read_text(text: str) -> tuple[Document | None, list[str]]:
    problems = Problems("f.yaml")
    document = parse(text, "f.yaml", {}, problems)
    return document, list(map(str, problems.ordered()))


def value(text: str) -> object:
    document, problems = read_text(text)
    assert not problems
    assert document is not None
    return document.value


def test_words_and_times_stay_texts() -> None:
    """YAML 1.2: only true, false, null and numbers are more than text."""
    text = "{a: no, b: on, c: 12:30, d: 1_000, e: y, f: 0o17, g: 0x1F, h: true, i: ~, j: 1.5e3, k: -7, l: .inf, m: 017}"

    assert value(text) == {
        "a": "no", "b": "on", "c": "12:30", "d": "1_000", "e": "y", "f": 15, "g": 31, "h": True, "i": None,
        "j": 1500.0, "k": -7, "l": ".inf", "m": 17,
    }  # fmt: skip


def test_a_number_too_large_for_a_float_stays_text() -> None:
    """Infinity is never intended."""
    assert value("a: 1e999") == {"a": "1e999"}


def test_keys_are_texts_as_they_are_written() -> None:
    """A model may be called 4.10."""
    assert value("{4.10: a, true: b, ~: c}") == {"4.10": "a", "true": "b", "~": "c"}


def test_an_empty_file_is_an_empty_mapping() -> None:
    """A file with comments alone is syntactically valid."""
    assert value("") == value("# nothing\n") == value("~") == {}


def test_every_path_knows_its_line_and_column() -> None:
    """Keys and list items are found where they are written."""
    document, _ = read_text("models:\n  qwen:\n    aliases: [a,\n              bb]\n")

    assert document is not None
    assert document.spots[("models", "qwen", "aliases")] == Spot("f.yaml", 3, 5)
    assert document.spots[("models", "qwen", "aliases", 1)] == Spot("f.yaml", 4, 15)


def test_the_written_form_of_a_number_is_kept() -> None:
    """4.10 as a name is not 4.1."""
    document, _ = read_text("a: [4.10, TRUE, x]")

    assert document is not None
    assert document.written == {("a", 0): "4.10", ("a", 1): "TRUE"}


def test_merges_yield_to_own_keys_and_to_earlier_merges() -> None:
    """`<<` adds missing keys, the first mapping wins, also through merges of merges."""
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2, z: 2}\nc: {z: 3, <<: [*b, *a]}\nd: {<<: *a, <<: *b}"

    assert value(text) == {
        "a": {"x": 1, "y": 1},
        "b": {"y": 2, "z": 2, "x": 1},
        "c": {"z": 3, "y": 2, "x": 1},
        "d": {"x": 1, "y": 1, "z": 2},
    }


def test_a_merged_key_points_to_where_it_is_written() -> None:
    """An error about it points to the anchor."""
    document, _ = read_text("a: &a\n  x: 1\nb:\n  <<: *a\n")

    assert document is not None
    assert document.spots[("b", "x")] == Spot("f.yaml", 2, 3)


def test_an_anchor_may_be_defined_anew() -> None:
    """The last definition before the alias counts."""
    assert value("a: &n 1\nb: *n\nc: &n 2\nd: *n") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_keys_that_hold_anchors_for_others() -> None:
    """A key whose anchors are used only within it does not count."""
    document, _ = read_text("shelf: {deep: &a 1}\nother: &b 2\nself: {x: &c 3, y: *c}\nuse: *a\n")

    assert document is not None
    assert document.anchors_only == {"shelf"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1: error: a: duplicate key, first defined in line 1"),
        ("m:\n  x: {a: 1, a: 2}", "f.yaml:2:13: error: m.x.a: duplicate key, first defined in line 2"),
        ("a: !!python/name:os.system x", 'f.yaml:1:4: error: a: the tag "python/name:os.system" is not supported'),
        ("a: !mine [1]", 'f.yaml:1:4: error: a: the tag "!mine" is not supported'),
        ("a: !mine {b: 1}", 'f.yaml:1:4: error: a: the tag "!mine" is not supported'),
        ("a: !!bool perhaps", 'f.yaml:1:4: error: a: "perhaps" is not a boolean'),
        ("a:\n  [x]: 1", "f.yaml:2:3: error: a: a key must be a scalar, not a list or a mapping"),
        ("a: &a {[x]: 1}\nb: {<<: *a}", "f.yaml:1:8: error: a: a key must be a scalar, not a list or a mapping"),
        ("a: {<<: 1}", 'f.yaml:1:9: error: a["<<"]: must be a mapping or a list of mappings'),
        ("- a\n- b", "f.yaml:1:1: error: the file must contain a mapping, as in `models: …`"),
        ("just text", "f.yaml:1:1: error: the file must contain a mapping, as in `models: …`"),
        ("a: [1", "f.yaml:1:6: error: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        (
            "a: [x=${PORT}]",
            "f.yaml:1:8: error: not valid YAML: expected ',' or ']', but got '{'. "
            "Inside [ ] and { }, quote strings with ${…}",
        ),
        ("a: b: c", "f.yaml:1:5: error: not valid YAML: mapping values are not allowed here"),
        (
            "a:\n\tb: 1",
            "f.yaml:2:1: error: not valid YAML: found character '\\t' that cannot start any token. Indent with spaces",
        ),
        ("a: *nobody", "f.yaml:1:4: error: not valid YAML: found undefined alias 'nobody'"),
        (
            "a: 1\n---\nb: 2",
            "f.yaml:2:1: error: not valid YAML: expected a single document in the stream, but found another document",
        ),
        (
            'a: "x\nb: 1\n',
            "f.yaml:3:1: error: not valid YAML: found unexpected end of stream"
            " (while scanning a quoted scalar that begins in line 1)",
        ),
        (
            "a:\n  b\n  c: 1",
            "f.yaml:3:4: error: not valid YAML: mapping values are not allowed here",
        ),
        (
            "a: [1,\n  2\nb: 3",
            "f.yaml:3:2: error: not valid YAML: expected ',' or ']', but got ':'"
            " (while parsing a flow sequence that begins in line 1)",
        ),
        ("a: x\nb: \x01", "f.yaml:2:4: error: not valid YAML: special characters are not allowed (#x0001)"),
        ("a: " + "[" * 80, "f.yaml:1:67: error: not valid YAML: nested deeper than 64 levels"),
        ("x" * (MAX_CHARACTERS + 1), "f.yaml:1:1: error: the file is larger than 4,000,000 characters"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(text: str, problem: str) -> None:
    """Each kind of syntax error has its message, line and column."""
    _, problems = read_text(text)

    assert problem in problems


def test_aliases_that_multiply_are_cut_short() -> None:
    """Nine lines must not become a billion values."""
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
    document, problems = read_text("\n".join(lines))

    assert document is None
    assert problems == ["f.yaml:1:1: error: aliases expand to more than 200,000 values, or endlessly"]


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}", "a: &a {<<: [*a, *a]}"])
def test_an_alias_within_its_own_anchor_ends(text: str) -> None:
    """A value that contains itself is infinite, but reading it ends."""
    document, problems = read_text(text)

    assert document is None
    assert problems == ["f.yaml:1:1: error: aliases expand to more than 200,000 values, or endlessly"]


def test_libyaml_reads_what_pyyaml_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, places and errors are the same; only the time differs."""
    texts = [file.read_bytes().decode("utf-8", "replace") for file in FILES] + RARE_FORMS
    read_by_libyaml = [read_text(text) for text in texts]
    monkeypatch.setattr("hotseat.config.document.CParser", None)

    assert [text for text, seen in zip(texts, read_by_libyaml, strict=True) if read_text(text) != seen] == []


def mistakes(*paths: Path) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        read(paths, environ={})
    return list(map(str, refused.value.problems))


def test_files_of_a_directory_follow_in_the_order_of_their_names(files: ConfigFiles) -> None:
    """The named file first, then *.yml and *.yaml; subdirectories and other files are ignored."""
    main = files.write("main.yaml", "models: {a: {cmd: 's ${PORT}'}}\nallowedHosts: [one]")
    files.write("d/2.yaml", "models: {c: {cmd: 's ${PORT}'}}\nallowedHosts: [three, 4.10]")
    files.write("d/1.yml", "models: {b: {cmd: 's ${PORT}'}}\nallowedHosts: [two]\nlogLevel: debug")
    files.write("d/notes.txt", "not: [yaml")
    files.write("d/deeper/3.yaml", "not: [yaml")
    loaded = read([main, Path("d")], environ={})

    assert list(loaded.catalog.models) == ["a", "b", "c"]
    assert loaded.settings.access.allowed_hosts == ("one", "two", "three", "4.10")
    assert loaded.settings.logging.level == "debug"
    assert loaded.files == (Path("main.yaml"), Path("d/1.yml"), Path("d/2.yaml"))


def test_nothing_yields_to_something_and_equal_values_agree(files: ConfigFiles) -> None:
    """A null on either side, or the same value on both, is no conflict."""
    one = files.write("1.yaml", "logLevel:\nstartPort: 5\nmodels: {a: {cmd: 's ${PORT}'}}\nmetrics: true")
    two = files.write("2.yaml", "logLevel: debug\nstartPort:\nmodels:\nmetrics: true")
    loaded = read([one, two], environ={})

    assert loaded.settings.logging.level == "debug"
    assert loaded.catalog.resolve("a").recipe.preferred_port == 5


def test_clashes_name_both_files_and_lines(files: ConfigFiles) -> None:
    """Different values and models of the same name are errors."""
    one = files.write("1.yaml", "startPort: 5\nmodels:\n  a: {cmd: 's ${PORT}'}\nmacros: {x: 1}")
    two = files.write("2.yaml", "models:\n  a: {cmd: 's ${PORT}'}\nstartPort: 6\nmacros: {x: '1'}")

    assert mistakes(one, two) == [
        "2.yaml:2:3: error: models.a: is also defined in 1.yaml:3:3",
        "2.yaml:3:1: error: startPort: has another value in 1.yaml:1:1",
        "2.yaml:4:10: error: macros.x: has another value in 1.yaml:4:10",
    ]


def test_problems_point_into_the_file_that_holds_the_mistake(files: ConfigFiles) -> None:
    """This holds also for list items whose index has changed."""
    one = files.write("1.yaml", "models: {a: {cmd: 's ${PORT}'}}\ntrustedProxies: [10.0.0.1]")
    two = files.write("2.yaml", "trustedProxies: [10.0.0.2, nowhere]\nlisten: ${env.NOBODY}")

    assert mistakes(one, two) == [
        '2.yaml:1:28: error: trustedProxies[2]: must be an address or a network such as 10.0.0.0/8, not "nowhere"',
        "2.yaml:2:9: error: environment variable NOBODY is not set. Set NOBODY before starting hotseat",
    ]


def test_a_file_given_twice_is_a_mistake(files: ConfigFiles) -> None:
    """A file named directly and through its directory is an error."""
    file = files.write("d/1.yaml", "models: {a: {cmd: 's ${PORT}'}}")

    assert mistakes(file, Path("d")) == ["d/1.yaml:1:1: error: the file is listed twice. List it once"]


def test_no_file_at_all_is_a_mistake(files: ConfigFiles) -> None:
    """An empty directory holds no configuration."""
    files.write("d/readme.md", "")
    said = f"error: no configuration file found. Name a file, or a directory with .yaml files. {INIT}"

    assert mistakes(Path("d")) == [f"d:1:1: {said}"]
    assert mistakes() == [f":1:1: {said}"]


def test_unreadable_files_are_reported_all_at_once(files: ConfigFiles, tmp_path: Path) -> None:
    """Nothing else is checked while a file is missing."""
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    broken = files.write("broken.yaml", "a: [")

    assert mistakes(Path("absent.yaml"), Path("latin.yaml"), broken) == [
        f"absent.yaml:1:1: error: the file cannot be read: No such file or directory. {INIT}",
        "broken.yaml:1:5: error: not valid YAML: expected the node content, but found '<stream end>'",
        "latin.yaml:1:1: error: the file cannot be read: it is not UTF-8",
    ]


def test_root_is_warned_of_a_file_everybody_may_write(
    files: ConfigFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody who can write the file can run commands as root."""
    file = files.write("config.yaml", "models: {a: {cmd: 's ${PORT}'}}")
    (tmp_path / file).chmod(0o666)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    as_root = read([file], environ={}).problems
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert [str(problem) for problem in as_root] == [
        "config.yaml:1:1: warning: any user may write this file, and hotseat runs its commands as root."
        " Run chmod o-w config.yaml"
    ]
    assert read([file], environ={}).problems == ()
