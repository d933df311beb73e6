"""Several files and directories as one configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hotseat.config.load import INIT, read
from hotseat.config.problems import ConfigError

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles


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
