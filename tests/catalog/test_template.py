"""Holes in texts, words of commands and addresses of servers."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.catalog.spec import LaunchRecipe, fill
from hotseat.catalog.template import (
    MacroValue,
    address_of,
    as_text,
    expand,
    fill_hole,
    holes,
    split_command,
    without_comments,
)
from hotseat.identifiers import Address

RECIPE = LaunchRecipe(
    argv=("server", "--port", "${PORT}"),
    proxy="http://localhost:${PORT}",
    stop=("stop", "--pid=${PID}", "${PORT}"),
    env=(("LISTEN", "127.0.0.1:${PORT}"), ("MODE", "fast")),
    check_endpoint="/health?port=${PORT}",
)


def test_a_launch_fills_the_port_everywhere_and_leaves_the_pid_open() -> None:
    """After `fill` only the process id is unknown."""
    filled = fill(RECIPE, 4711)

    assert filled.argv == ("server", "--port", "4711")
    assert filled.address == Address("localhost", 4711)
    assert filled.env == (("LISTEN", "127.0.0.1:4711"), ("MODE", "fast"))
    assert filled.check_endpoint == "/health?port=4711"
    assert filled.stop == ("stop", "--pid=${PID}", "4711")
    assert filled.stop_argv(99) == ("stop", "--pid=99", "4711")


def test_a_model_without_stop_command_and_health_path_keeps_both_unset() -> None:
    """What a recipe does not have, a filled recipe does not have."""
    filled = fill(LaunchRecipe(argv=("server",), proxy="http://host:1", check_endpoint=None), 1)

    assert filled.check_endpoint is None
    assert filled.stop_argv(99) is None


@pytest.mark.parametrize(
    ("proxy", "address"),
    [
        ("http://localhost:8080", Address("localhost", 8080)),
        ("http://127.0.0.1:8080/", Address("127.0.0.1", 8080)),
        ("http://host", Address("host", 80)),
        ("https://host", Address("host", 443, tls=True)),
        ("https://host:8443/base/path/", Address("host", 8443, tls=True, prefix="/base/path")),
        ("http://[::1]:9000", Address("::1", 9000)),
        ("unix:/run/model.sock", Address("localhost", 80, unix_path="/run/model.sock")),
        ("unix:///run/model.sock", Address("localhost", 80, unix_path="/run/model.sock")),
    ],
)
def test_a_proxy_setting_becomes_an_address(proxy: str, address: Address) -> None:
    """Scheme, host, port and path prefix are read as a browser would read them."""
    assert address_of(proxy) == address


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("localhost:8080", "must begin with http://"),
        ("", "must begin with http://"),
        ("ftp://host", "must begin with http://"),
        ("http://", "scheme, host, port and path only"),
        ("http://user:secret@host", "scheme, host, port and path only"),
        ("http://host/?a=b", "scheme, host, port and path only"),
        ("http://host/#top", "scheme, host, port and path only"),
        ("http://host:99999", "from 1 to 65535"),
        ("http://host:0", "from 1 to 65535"),
        ("http://host:80a", "from 1 to 65535"),
        ("http://10.0.0.300:80", "neither an IP address nor a host name"),
        ("http://[::g]:80", "does not appear to be an IPv4 or IPv6 address|neither an IP address nor a host name"),
        ("http://a..b:80", "neither an IP address nor a host name"),
        ("http://a b:80", "neither an IP address nor a host name"),
        (f"http://{'a' * 64}.b:80", "neither an IP address nor a host name"),
        ("unix:model.sock", "absolute path"),
    ],
)
def test_an_unusable_proxy_setting_is_refused_with_a_reason(proxy: str, said: str) -> None:
    """An address that cannot be connected to is a ValueError that says why."""
    with pytest.raises(ValueError, match=said):
        address_of(proxy)


def test_the_holes_of_a_text_are_found_in_order() -> None:
    """Only `${name}` is a hole; `$name` and `${}` are plain text."""
    assert holes("${a} $b ${} ${c-d_1}${env.X}") == ("a", "c-d_1", "env.X")


def test_a_lone_macro_keeps_its_type() -> None:
    """`${ctx}` is the number, `-c ${ctx}` is a text."""
    macros: dict[str, MacroValue] = {"ctx": 8192, "flash": True, "temp": 0.5, "dir": "/m"}

    assert expand("${ctx}", macros) == 8192
    assert expand("${flash}", macros) is True
    assert expand("-c ${ctx} -t ${temp} -fa ${flash} ${dir}/x", macros) == "-c 8192 -t 0.5 -fa true /m/x"


def test_unknown_holes_stay_as_they_are() -> None:
    """The port is no macro and is filled later."""
    assert expand("${PORT}", {"a": "b"}) == "${PORT}"
    assert expand("${a}:${PORT}", {"a": "b"}) == "b:${PORT}"


def test_a_filled_text_is_not_expanded_again() -> None:
    """A value that looks like a hole is a value."""
    assert expand("x${a}", {"a": "${b}", "b": "c"}) == "x${b}"


def test_only_the_named_hole_is_filled() -> None:
    """Filling the port does not touch the pid."""
    assert fill_hole("${PORT} ${PID}", "PORT", 5) == "5 ${PID}"


def test_booleans_are_written_as_yaml_writes_them() -> None:
    """Servers expect `true`, not `True`."""
    assert [as_text(True), as_text(False), as_text(1), as_text("x")] == ["true", "false", "1", "x"]


def test_comment_lines_of_a_command_disappear() -> None:
    """A line that begins with # is a note; a # elsewhere is not."""
    assert without_comments("# one\nserver --a '#b'\n   # two\n\t#three\n--c #d\n# end") == "server --a '#b'\n--c #d\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("server --port 1", ("server", "--port", "1")),
        ("server \\\n  --port 1 \\ \n --x", ("server", "--port", "1", "--x")),
        ("server\n--port 1\n", ("server", "--port", "1")),
        ("server 'a b' \"c d\" e\\ f", ("server", "a b", "c d", "e f")),
        ("server -x '' # not a comment", ("server", "-x", "", "#", "not", "a", "comment")),
        ("  ", ()),
    ],
)
def test_a_command_is_split_as_a_shell_would_split_it(command: str, words: tuple[str, ...]) -> None:
    """Quotes group, backslashes join lines, line breaks separate words."""
    assert split_command(command) == words


@pytest.mark.parametrize("command", ['server "open', "server 'open", "server \\"])
def test_an_open_quote_is_refused(command: str) -> None:
    """It is unknown where the word ends."""
    with pytest.raises(ValueError):
        split_command(command)


@given(st.text(), st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), st.text(max_size=5)))
def test_a_text_without_holes_is_never_changed(text: str, macros: dict[str, str]) -> None:
    """Expansion touches holes only."""
    if not holes(text):
        assert expand(text, macros) == text


@given(st.text(alphabet=st.characters(min_codepoint=9, max_codepoint=255, exclude_characters="\\")))
def test_words_are_those_of_a_posix_shell(command: str) -> None:
    """Also where the faster way is taken, which knows neither quotes nor unusual spaces."""
    try:
        expected = tuple(shlex.split(command))
    except ValueError:
        return

    assert split_command(command) == expected
