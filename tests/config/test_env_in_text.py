"""`${env.NAME}` in the text of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

MODEL = "models: {m: {cmd: server, proxy: 'http://h:1', description: %s}}\n"


def described(files: ConfigFiles, text: str, **environ: str) -> str:
    return files.load(MODEL % text, environ).catalog.resolve("m").description


def test_a_variable_is_filled_in_wherever_a_value_stands(files: ConfigFiles) -> None:
    """Plain, quoted, and in the middle of a text."""
    assert described(files, "${env.A}", A="x") == "x"
    assert described(files, '"a ${env.A} ${env.B} b"', A="x", B="y") == "a x y b"
    assert described(files, "'${env.A}'", A="x") == "x"


def test_a_flow_list_takes_several_values_from_one_variable(files: ConfigFiles) -> None:
    """The text is replaced before YAML reads it."""
    loaded = files.load("apiKeys: [${env.KEYS}]\n" + MODEL % "x", {"KEYS": "key-number-one, key-number-two"})

    assert [key.secret for key in loaded.settings.access.api_keys] == ["key-number-one", "key-number-two"]


def test_quotes_and_backslashes_survive_a_quoted_text(files: ConfigFiles) -> None:
    """What the variable holds is what the setting holds."""
    assert described(files, '"${env.A}"', A='a"b\\c') == 'a"b\\c'


def test_quotes_in_a_variable_do_not_break_a_command(files: ConfigFiles) -> None:
    """Splitting the command undoes the escapes."""
    text = "models: {m: {cmd: 'server --key ${env.K}', proxy: 'http://h:1'}}"

    assert files.load(text, {"K": 'a"b'}).catalog.resolve("m").recipe.argv == ("server", "--key", 'a"b')


def test_a_variable_that_is_not_set_is_a_mistake_with_its_place(files: ConfigFiles) -> None:
    """The column is that of the occurrence."""
    said = "environment variable MISSING is not set. Set MISSING before starting hotseat"

    assert files.mistakes("defaultModel: m\n" + MODEL % "ab ${env.MISSING}") == [f"config.yaml:2:64: error: {said}"]


def test_a_missing_variable_is_the_only_problem_of_its_value(files: ConfigFiles) -> None:
    """One mistake gives one error: a missing value is not validated."""
    text = "startPort: ${env.P}\nmodels:\n  m: {cmd: '${env.C}'}\n"

    assert files.mistakes(text) == [
        "config.yaml:1:12: error: environment variable P is not set. Set P before starting hotseat",
        "config.yaml:3:13: error: environment variable C is not set. Set C before starting hotseat",
    ]


def test_a_variable_of_several_lines_is_refused(files: ConfigFiles) -> None:
    """It would change what the next lines mean."""
    said = "environment variable A contains a line break or a NUL. It must be a single line"

    assert files.mistakes(MODEL % "${env.A}", {"A": "x\ny: z"}) == [f"config.yaml:1:61: error: {said}"]
    assert files.mistakes(MODEL % "${env.A}", {"A": "x\rz"}) == [f"config.yaml:1:61: error: {said}"]
    assert files.mistakes(MODEL % "${env.A}", {"A": "x\0"}) == [f"config.yaml:1:61: error: {said}"]


def test_comments_may_speak_of_variables(files: ConfigFiles) -> None:
    """Whole lines, ends of lines, and comment lines of commands."""
    text = """
# ${env.NOBODY}
defaultModel: m # or ${env.NOBODY}
models:
  m:
    proxy: http://h:1
    cmd: |
      # --key ${env.NOBODY}
      server '# ${env.A}'
"""
    loaded = files.load(text, {"A": "a"})

    assert loaded.catalog.resolve("m").recipe.argv == ("server", "# a")


def test_columns_are_those_of_the_authors_text(files: ConfigFiles) -> None:
    """A long or short value before a mistake on the same line does not change its column."""
    text = "models: {m: {cmd: '${env.A}', proxy: 'http://h:1', tll: 1}, ${env.B}: {cmd: x, proxy: 'http://h:1', b: 1}}"

    assert files.mistakes(text, {"A": "x" * 50, "B": "y"}) == [
        'config.yaml:1:52: error: models.m.tll: unknown key. Did you mean "ttl"?',
        "config.yaml:1:101: error: models.y.b: unknown key",
    ]


def test_a_syntax_mistake_after_a_variable_keeps_its_column(files: ConfigFiles) -> None:
    """Errors of the parser refer to the original text too."""
    [problem] = files.mistakes("a: [${env.A}, b: c: d]", {"A": "x" * 30})

    assert problem.startswith("config.yaml:1:19: error: not valid YAML")


def test_variables_behind_our_keys_are_withheld_from_servers(files: ConfigFiles) -> None:
    """Directly, in a mapping, for a peer, and through macros; other variables are passed on."""
    text = """
macros:
  inner: ${env.INNER}
  outer: "${inner}-${inner}-${env.OUTER}"
  plain: ${env.PLAIN}
apiKeys:
  - ${env.DIRECT}
  - key: ${env.MAPPED}
  - ${outer}
models:
  m: {cmd: 'server ${plain} ${env.USED}', proxy: 'http://h:1'}
peers:
  far: {proxy: 'http://far', apiKey: "${env.PEER}", models: [a]}
"""
    names = ("INNER", "OUTER", "PLAIN", "DIRECT", "MAPPED", "USED", "PEER")
    loaded = files.load(text, {name: f"value-of-{name.lower()}" for name in names})

    assert loaded.withheld_env == {"INNER", "OUTER", "DIRECT", "MAPPED", "PEER"}


def test_a_macro_without_its_variable_is_one_error(files: ConfigFiles) -> None:
    """The uses of the macro give no further errors."""
    text = "macros: {m: '${env.NOBODY}'}\nmodels: {m: {macros: {n: '${env.NOBODY}'}, cmd: 's ${PORT} ${m} ${n}'}}"
    said = "error: environment variable NOBODY is not set. Set NOBODY before starting hotseat"

    assert files.mistakes(text) == [f"config.yaml:1:14: {said}", f"config.yaml:2:27: {said}"]


def test_problems_never_repeat_a_secret(files: ConfigFiles) -> None:
    """Neither values of variables nor text in place of a key are quoted."""
    text = """
apiKeys: ${env.K}
logLevel: ${env.K}
globalTTL: ${env.K}
models:
  m: {cmd: 'KEY=sk-1 s ${PORT}', env: ["${env.K}"], proxy: 'http://me:sk-1@host'}
peers:
  p: {proxy: 'http://p', models: [a], apiKey: [sk-1]}
"""
    problems = files.mistakes(text, {"K": "sk-1"})

    assert sum(": error: " in problem for problem in problems) == 6
    assert not any("sk-1" in problem for problem in problems)


def test_a_control_character_in_a_variable_is_an_error_where_it_is_used(files: ConfigFiles) -> None:
    """The parser refuses it; the position is that in the original text."""
    [problem] = files.mistakes("a: b\nc: 'xx${env.A}'", {"A": "long\x01"})

    assert problem == "config.yaml:2:7: error: not valid YAML: special characters are not allowed (#x0001)"
