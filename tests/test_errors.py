"""Errors that people read: short, in one line, with what matters."""

from __future__ import annotations

import time

import pytest

from hotseat.errors import LONGEST_LINE, LoadFailed, did_you_mean, last_meaningful, with_output

LLAMA = (
    "E gguf_init_from_file: failed to open GGUF file 'lost.gguf' (No such file or directory)",
    "E srv    load_model: failed to load model, 'lost.gguf'",
    "I srv    operator(): operator(): cleaning up before exit...",
    "E srv  llama_server: exiting due to model loading error",
)
PYTHON = ("Traceback (most recent call last):", '  File "serve.py", line 3, in <module>', "ValueError: no weights", "")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (LLAMA, "E srv    load_model: failed to load model, 'lost.gguf'"),
        (PYTHON, "ValueError: no weights"),
        (("loading", "-----", ""), "loading"),
        (("exiting", "=="), ""),
        ((), ""),
    ],
    ids=["llama-server", "python", "no trouble", "only a goodbye", "silence"],
)
def test_the_last_line_that_says_something(lines: tuple[str, ...], expected: str) -> None:
    """What went wrong, rather than that the server leaves."""
    assert last_meaningful(lines) == expected


def test_a_failed_start_is_one_short_line() -> None:
    """However much there is to say; the whole is in the log."""
    failed = LoadFailed("qwen is not ready:\n" + "why " * 200, output=("error: " + "x" * 900,))

    for error in (failed.message, failed.for_operators().message):
        assert "\n" not in error
        assert len(error) <= LONGEST_LINE
    assert "x" * 900 in with_output(failed.message, failed.output)


def test_a_long_last_line_is_clipped() -> None:
    """The reason is complete, the quotation is clipped."""
    error = LoadFailed("qwen is not ready: it exited with code 1.", output=("error: " + "x" * 900,)).for_operators()

    assert error.message.startswith('qwen is not ready: it exited with code 1. Last output: "error: xxx')
    assert len(error.message) == LONGEST_LINE


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("qwem", ' Did you mean "qwen"?'),
        ("m", ' Did you mean "org/repo/m" or "other/repo/m"?'),
        ("something else", ""),
    ],
)
def test_what_was_probably_meant(wrong: str, expected: str) -> None:
    """A near miss, or every name that only lacks its folder."""
    assert did_you_mean(wrong, ["qwen", "org/repo/m", "other/repo/m"]) == expected


@pytest.mark.parametrize(("wrong", "expected"), [("modle-77", "model-77"), ("x" * 1_000_000, ""), ("gpt-4o", "")])
def test_a_wrong_name_among_very_many(wrong: str, expected: str) -> None:
    """Nobody is served meanwhile, so it is compared with the likeliest names only."""
    names = [f"{kind}-{n}" for kind in ("alias", "model") for n in range(10_000)]
    began = time.process_time()
    said = did_you_mean(wrong, names)

    assert said == (f' Did you mean "{expected}"?' if expected else "")
    assert time.process_time() - began < 0.1


def test_a_wrong_name_that_is_hard_to_compare() -> None:
    """A long name that repeats itself, like those that are known, takes little time too."""
    names = ["abd" * 30 + str(n) for n in range(100)]
    began = time.process_time()
    did_you_mean("abc" * 30, names)
    did_you_mean("abc" * 60, ["abd" * 60 + name for name in names])

    assert time.process_time() - began < 0.1


def test_the_nearest_of_many_that_begin_and_end_alike() -> None:
    """What differs may be in the middle."""
    names = [f"qwen-coder-{n:02d}-instruct-q4" for n in range(100)]

    assert did_you_mean("qwen-coder-9_9-instruct-q4", names) == ' Did you mean "qwen-coder-99-instruct-q4"?'
