"""What a step of falling asleep or waking is."""

from __future__ import annotations

import pytest

from hotseat.catalog.sleeping import Ask, Run, step_of
from hotseat.catalog.template import sealed


@pytest.mark.parametrize(
    ("text", "step", "shown"),
    [
        ("POST /sleep?level=1&mode=wait", Ask("POST", "/sleep?level=1&mode=wait"), "POST /sleep?level=1&mode=wait"),
        ('POST /rpc {"method": "go on"}', Ask("POST", "/rpc", '{"method": "go on"}'), "POST /rpc"),
        ("GET /wake", Ask("GET", "/wake"), "GET /wake"),
        ("suspend --pid ${PID} 'a b'", Run(("suspend", "--pid", "${PID}", "a b")), "suspend"),
        ("POST sleep", Run(("POST", "sleep")), "POST"),
    ],
)
def test_a_step_is_a_request_or_a_command(text: str, step: Ask | Run, shown: str) -> None:
    """A method and a path are a request, with the body behind them; anything else is a program and its words."""
    assert step_of(text) == step
    assert str(step) == shown


def test_the_words_of_a_step() -> None:
    """All of them, for display."""
    assert Ask("POST", "/rpc", "{}").words == ("POST", "/rpc", "{}")
    assert Ask("POST", "/sleep").words == ("POST", "/sleep")
    assert Run(("suspend", "now")).words == ("suspend", "now")


def test_a_step_that_says_nothing() -> None:
    """It is refused, and so are open quotes."""
    with pytest.raises(ValueError, match="neither a request nor a command"):
        step_of("  ")
    with pytest.raises(ValueError, match="quotation"):
        step_of("suspend '")


def test_a_value_from_elsewhere_keeps_its_meaning_in_a_step() -> None:
    """In a path it is quoted and in a JSON body escaped, so it can end neither."""
    value = sealed('a "b"/c')

    assert step_of(f'POST /x?name={value} {{"name": "{value}"}}') == Ask(
        "POST", "/x?name=a%20%22b%22/c", '{"name": "a \\"b\\"/c"}'
    )
