"""Durations, sizes and addresses as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from hotseat.config.crosscheck import refuse_open, refuse_to_serve
from hotseat.config.units import is_loopback, parse_budget, parse_duration, parse_listen, parse_size, shown, size_text
from hotseat.settings import Access, ApiKey, Budget, Settings, TlsFiles


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        (0.5, 0.5),
        ("91", 91),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1.5h", 5400),
        (-1, -1),
    ],
)
def test_durations(written: Any, seconds: float) -> None:
    """Seconds as a number, or numbers with units."""
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("written", ["soon", "5 minutes", "5d", "m5", "", True, None, [1], {"s": 1}])
def test_no_durations(written: Any) -> None:
    """Everything else is refused with examples."""
    with pytest.raises(ValueError, match="must be a duration such as 90, 90s, 5m or 1h30m"):
        parse_duration(written)


@pytest.mark.parametrize(
    "written", [float("inf"), float("-inf"), float("nan"), 10**400, "9" * 400, "9" * 400 + "h", 4e9]
)
def test_durations_that_no_clock_can_be_set_to(written: Any) -> None:
    """They are errors, not infinite durations."""
    with pytest.raises(ValueError, match="must be at most 100 years"):
        parse_duration(written)


@pytest.mark.parametrize("written", [10**400, "9" * 400, "9" * 400 + "GiB"])
def test_sizes_that_nothing_has(written: Any) -> None:
    """They are refused like other mistakes."""
    with pytest.raises(ValueError, match="must be at most 1048576 TiB"):
        parse_size(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (1024, 1024),
        (0, 0),
        ("1023", 1023),
        ("100B", 100),
        ("18GiB", 18 << 30),
        ("18 GiB", 18 << 30),
        ("24GB", 24_000_000_000),
        ("512MiB", 512 << 20),
        ("1.5KiB", 1536),
        ("2tib", 2 << 40),
        ("3kB", 3000),
    ],
)
def test_sizes(written: Any, size: int) -> None:
    """Bytes as a number, or numbers with units of 1024 or of 1000."""
    assert parse_size(written) == size


@pytest.mark.parametrize("written", ["much", "-2", -1, 1.5, True, None, "GiB", "1GiBs", [1]])
def test_no_sizes(written: Any) -> None:
    """Everything else is refused with examples."""
    with pytest.raises(ValueError, match="must be a size such as 18GiB, 24GB or a number of bytes"):
        parse_size(written)


@pytest.mark.parametrize("written", ["24G", "24g", "24Gi"])
def test_a_unit_that_may_mean_two_things_is_refused(written: str) -> None:
    """24G is 24 GB or 24 GiB, depending on the program."""
    with pytest.raises(ValueError, match="is ambiguous: write 24GiB or 24GB"):
        parse_size(written)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:8080", ("::1", 8080)),
        (":8080", ("0.0.0.0", 8080)),
        (8080, ("127.0.0.1", 8080)),
        ("0", ("127.0.0.1", 0)),
    ],
)
def test_addresses_to_listen_on(written: Any, address: tuple[str, int]) -> None:
    """Without a host it is every interface, without a colon it is this machine."""
    assert parse_listen(written) == address


@pytest.mark.parametrize("written", ["", "host", "host:", "::1:80", "host:99999", "http://host:80", [80]])
def test_no_addresses_to_listen_on(written: Any) -> None:
    """Everything else is refused with an example."""
    with pytest.raises(ValueError, match="must be host:port such as"):
        parse_listen(written)


def test_values_are_quoted_short() -> None:
    """An error never repeats a page of text."""
    assert [shown(value) for value in ("a", 1, 1.5, True, None, [1], {"a": 1})] == [
        '"a"', "1", "1.5", "true", "nothing", "a list", "a mapping",
    ]  # fmt: skip
    assert shown("x" * 50) == f'"{"x" * 37}..."'


def test_sizes_are_shown_as_people_say_them() -> None:
    """The largest unit that fits, to a tenth."""
    assert [size_text(size) for size in (100, 1536, 5 << 20, 18 << 30, 24_000_000_000, 3 << 40)] == [
        "100 bytes", "1.5 KiB", "5 MiB", "18 GiB", "22.4 GiB", "3 TiB",
    ]  # fmt: skip


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "a.localhost", "::1%lo"])
def test_addresses_of_this_machine(host: str) -> None:
    """Only this machine can reach them, so no key is needed."""
    assert is_loopback(host)
    assert refuse_open(Settings(listen=(host, 80))) is None


@pytest.mark.parametrize(("host", "shown_as"), [("0.0.0.0", "0.0.0.0:80"), ("::", "[::]:80"), ("box", "box:80")])
def test_an_open_address_without_keys_is_refused_with_a_way_out(host: str, shown_as: str) -> None:
    """The message names the address and all three fixes."""
    settings = Settings(listen=(host, 80))
    sentence = refuse_open(settings)

    assert sentence is not None
    assert sentence.startswith(f"{shown_as} can be reached from other machines")
    assert all(way in sentence for way in ("apiKeys", "127.0.0.1:80", "allowOpen: true"))
    assert refuse_open(structs.replace(settings, access=Access(allow_open=True))) is None
    assert refuse_open(structs.replace(settings, access=Access(api_keys=(ApiKey("k"),)))) is None


def test_an_open_address_for_ollamas_clients_is_refused_too() -> None:
    """It has the same rules, and no certificate: with one, it is for this machine only."""
    settings = Settings(ollama_listen=("0.0.0.0", 11434))
    with_key = structs.replace(settings, access=Access(api_keys=(ApiKey("k"),)))
    with_tls = structs.replace(with_key, tls=TlsFiles(Path("cert.pem")))

    assert "0.0.0.0:11434 can be reached from other machines" in str(refuse_to_serve(settings))
    assert refuse_to_serve(with_key) is None
    assert "ollama.listen 0.0.0.0:11434 is plain HTTP" in str(refuse_to_serve(with_tls))
    assert refuse_to_serve(structs.replace(with_tls, ollama_listen=("::1", 11434))) is None


@pytest.mark.parametrize(
    ("written", "budget"),
    [("100/min", Budget(100, 60.0)), ("2M/day", Budget(2_000_000, 86400.0)), (" 1.5k / hour ", Budget(1500, 3600.0))],
)
def test_budgets(written: str, budget: Budget) -> None:
    """So many per second, minute, hour or day, in thousands or millions."""
    assert parse_budget(written) == budget
    assert parse_budget(str(budget)) == budget


@pytest.mark.parametrize("written", ["100", 7, "min/100", "2G/day", "3/week", "", [1], True])
def test_no_budgets(written: Any) -> None:
    """The error shows what a budget looks like."""
    with pytest.raises(ValueError, match="such as 100/min or 2M/day"):
        parse_budget(written)


def test_a_budget_of_nothing() -> None:
    """A key that may use nothing is no key: it must be at least one."""
    with pytest.raises(ValueError, match="at least 1"):
        parse_budget("0/day")


def test_no_limit() -> None:
    """Nothing is no limit."""
    assert parse_budget(None) is None
