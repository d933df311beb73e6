"""What servers write is kept, followed and copied, and never slows them down."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import model
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers.output import (
    GATHER_S,
    KEPT,
    LONGEST_LINE,
    MERGED_S,
    MOST_CHUNKS,
    SKIPPED,
    SMALL,
    Line,
    Output,
    Outputs,
    Pipe,
    StdoutCopy,
)

if TYPE_CHECKING:
    from tests.support.supervisor_rig import SupervisorRig

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def texts(output: Output, lines: int = 20, since: int = 0) -> list[str]:
    return [line.text for line in output.tail(lines, since)]


async def test_a_hundred_megabytes_pass_without_holding_up_the_server(rig: SupervisorRig) -> None:
    """The pipe is always drained, the last of it is kept and the rest costs nothing."""
    used = time.process_time()
    await rig.ready(model("babbles", "100"))

    assert await rig.said("said it all") == ""
    assert rig.output.written > 99_000_000
    assert time.process_time() - used < 5


async def test_a_server_that_writes_in_crumbs_is_read_a_few_times_a_second() -> None:
    """A wake-up for each piece of each line would cost more than the request that the lines are about."""
    pieces: list[bytes] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    pipe = Pipe(Output(pieces.append))
    for _ in range(1000):
        os.write(pipe.write_end, b"crumb\n")
        await asyncio.sleep(0)
    os.close(pipe.write_end)
    pipe.close()

    assert b"".join(pieces) == b"crumb\n" * 1000
    assert len(pieces) <= 2 + (loop.time() - began) / GATHER_S


async def test_a_reader_gets_a_line_without_anything_after_it() -> None:
    """What was written during a pause is read at its end."""
    output = Output()
    pipe = Pipe(output)
    for line in (b"one\n", b"two\n"):
        os.write(pipe.write_end, line)
        await come_true(lambda: texts(output, 1) == [line.decode().strip()])  # noqa: B023
    os.close(pipe.write_end)
    pipe.close()

    assert texts(output) == ["one", "two"]


def test_the_last_lines_are_kept() -> None:
    output = Output()
    output.feed(b"one\ntwo\nthr")
    output.feed(b"ee\n")

    assert texts(output, 2) == ["two", "three"]
    assert texts(output, 20) == ["one", "two", "three"]
    assert texts(output, 0) == []


def test_nothing_written_is_no_line() -> None:
    assert texts(Output()) == []


def test_an_unfinished_line_is_kept_too() -> None:
    """A server that dies in the middle of a word has said it."""
    output = Output()
    output.feed(b"loading\nCUDA error: out of mem")

    assert texts(output, 1) == ["CUDA error: out of mem"]


def test_lines_since_a_place_leave_out_what_was_before() -> None:
    """Output of the previous launch is left out, also if its end is no longer in the buffer."""
    output = Output()
    output.feed(b"old\n")
    place = output.written
    output.feed(b"new\n")

    assert texts(output, since=place) == ["new"]
    assert texts(output, since=output.written) == []
    output.feed(b"x" * KEPT + b"\nlast\n")
    assert texts(output, 1, since=place) == ["last"]


def test_no_more_than_the_ring_holds_is_kept() -> None:
    """Whether it comes in big pieces or in a million dots."""
    output = Output()
    for _ in range(300_000):
        output.feed(b".")
    dots = len("".join(texts(output, 1)))
    for number in range(1000):
        output.feed(b"%d " % number * 1000)
    kept = "\n".join(texts(output, 1_000_000))

    assert KEPT <= dots < KEPT + 8192
    assert KEPT <= len(kept) < KEPT + 8192
    assert kept.endswith("999 ")


# Times


def test_a_line_has_the_time_at_which_its_end_was_read() -> None:
    """Of an unfinished line, the time of its last byte."""
    clock = Clock()
    output = Output(wall_clock=clock)
    for at, data in ((1.0, b"one\ntw"), (2.0, b"o\r\n"), (9.0, b"10%\r"), (10.0, b"100%\nfour\nfi"), (11.0, b"ve")):
        clock.now = at
        output.feed(data)

    assert output.tail() == [Line(1, "one"), Line(2, "two"), Line(10, "100%"), Line(10, "four"), Line(11, "five")]
    assert output.tail(2) == [Line(10, "four"), Line(11, "five")]
    assert [*output.newest(2)] == [Line(11, "five"), Line(10, "four")]
    assert output.tail(since=len(b"one\n")) == output.tail()[1:]


def test_times_stay_right_when_old_output_is_dropped() -> None:
    clock = Clock()
    output = Output(wall_clock=clock)
    for number in range(300):
        clock.now = float(number)
        output.feed(b"%d " % number * 1000 + b"\n")

    assert all(line.text.startswith(f"{line.at:g} ") for line in output.tail(300))


def test_crumbs_within_a_moment_share_a_time() -> None:
    """A time is right to a twentieth of a second, and a million crumbs are not a million objects."""
    clock = Clock()
    output = Output(wall_clock=clock)
    for _ in range(1000):
        clock.now += MERGED_S / 100
        output.feed(b".\n")
    first, last = output.tail(1000)[0], output.tail(1)[0]

    assert first.at <= 1000 + MERGED_S
    assert clock.now - MERGED_S <= last.at <= clock.now
    assert len(output._recent._chunks) <= 12


def test_a_server_that_writes_a_dot_every_second_takes_bounded_memory() -> None:
    clock = Clock()
    output = Output(wall_clock=clock)
    for _ in range(MOST_CHUNKS + 10):
        clock.now += 1
        output.feed(b".\n")

    assert len(output._recent._chunks) == MOST_CHUNKS
    assert output.tail(1) == [Line(clock.now, ".")]


async def test_a_follower_gets_the_time_of_each_line() -> None:
    """Also of one that came in pieces."""
    clock = Clock()
    output = Output(wall_clock=clock)
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    for at, data in ((1.0, b"o"), (2.0, b"ne\n"), (3.0, b"two\n")):
        clock.now = at
        output.feed(data)

    assert [await first, await anext(lines)] == [Line(2, "one"), Line(3, "two")]
    await lines.aclose()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Bplain\x1b=", "plain"),
        (b"\x1b]0;no end, and the text is not hidden", "0;no end, and the text is not hidden"),
        (b"\x1b]0;torn\x1b[31mred\x07", "0;tornred"),
        (b"bell\x07 null\x00 c1\xc2\x9b31m", "bell null c131m"),
        (b"a\tb", "a\tb"),
        (b"10%\r50%\r100%", "100%"),
        (b"windows\r", "windows"),
        (b"torn \xff byte", "torn \N{REPLACEMENT CHARACTER} byte"),
        ("größe ✓".encode(), "größe ✓"),
    ],
)
def test_lines_are_plain_text(written: bytes, read: str) -> None:
    """Nothing in them can act on a terminal; a progress bar is its last state."""
    output = Output()
    output.feed(written + b"\n")

    assert texts(output, 1) == [read]


@pytest.mark.parametrize(
    "piece", [b"\x1b]", b"\x1bP", b"\x1b[", b"\x1b[1", b"\x1b(", b"\x1b\x1b", b"\r", b"\x1b]0;\xff"]
)
def test_the_longest_line_is_cleaned_in_time_proportional_to_its_length(piece: bytes) -> None:
    """Whatever it repeats: lines are cleaned on the event loop, where every other request would wait."""
    output = Output()
    output.feed((piece * KEPT)[:KEPT] + b".")
    used = time.process_time()
    [line] = texts(output, 1)

    assert time.process_time() - used < 0.5
    assert "\x1b" not in line


def test_secrets_are_hidden_from_readers() -> None:
    output = Output()
    output.conceal(["sk-canary"])
    output.feed(b"args: {'api_key': ['sk-canary']}\n")

    assert texts(output, 1) == ["args: {'api_key': ['***']}"]


async def test_a_follower_reads_lines_as_they_are_written() -> None:
    """Whole lines, however they were cut into pieces, and none from before."""
    output = Output()
    output.feed(b"before\n")
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    output.feed(b"on")
    output.feed(b"e\ntwo\nthr")

    assert [(await first).text, (await anext(lines)).text] == ["one", "two"]
    await lines.aclose()


async def test_a_follower_who_falls_behind_gets_a_skip_notice() -> None:
    """Nothing is buffered without bound for a slow reader."""
    output = Output()
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    for number in range(100_000):
        output.feed(b"line %d\n" % number)

    assert (await first).text == SKIPPED
    rest = [(await anext(lines)).text for _ in range(10)]
    assert all(line.startswith("line ") for line in rest)
    await lines.aclose()


async def test_a_follower_who_leaves_is_forgotten() -> None:
    output = Output()
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    assert output._followers == []


async def test_a_removed_model_whose_output_is_followed() -> None:
    """Its reader goes on when the model returns."""
    outputs = Outputs()
    output = outputs.of(ModelName("qwen"))
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    outputs.keep([])
    assert outputs.of(ModelName("qwen")) is output
    output.feed(b"one\n")
    assert (await first).text == "one"
    await lines.aclose()
    outputs.keep([])

    assert outputs.of(ModelName("qwen")) is not output


def copied(*pieces: tuple[ModelName, bytes]) -> bytes:
    written: list[bytes] = []
    outputs = Outputs(StdoutCopy(lambda make, _: written.append(make()), lambda model, line: f"{model}: {line}"))
    for model_, piece in pieces:
        outputs.of(model_).feed(piece)
    return b"".join(written)


def test_the_copy_has_no_terminal_escapes() -> None:
    """Also if one comes in two pieces: no server can write to the operator's clipboard."""
    pieces = [(QWEN, b"\x1b]52;c;ZXZp"), (QWEN, b"bA==\x07tex"), (QWEN, b"t\x1b"), (QWEN, b"[2J\xc2\x9b2J\n")]

    assert copied(*pieces) == b"qwen: text2J\n"


def test_the_copy_mixes_no_lines_of_two_servers() -> None:
    """However their pieces are cut."""
    pieces = [(QWEN, b"load"), (LLAMA, b"hello\r\n"), (QWEN, b"ing\n\xff\nand")]

    assert copied(*pieces).decode() == "llama: hello\nqwen: loading\nqwen: \ufffd\n"


def test_a_line_without_an_end_takes_no_memory() -> None:
    """A server that never ends its line is copied in pieces."""
    assert len(copied((QWEN, b"." * (LONGEST_LINE + 1)))) == LONGEST_LINE + len("qwen: .\n")


async def test_the_last_words_of_a_server_are_copied_without_the_end_of_their_line() -> None:
    """It died in the middle of a word."""
    pieces: list[bytes] = []
    pipe = Pipe(Output(pieces.append))
    os.write(pipe.write_end, b"out of mem")
    os.close(pipe.write_end)
    pipe.close()

    assert b"".join(pieces) == b"out of mem\n"


def test_secrets_are_hidden_from_the_copy_on_our_own_output_too() -> None:
    """Also where one comes in two pieces; a line that does not end is not kept back for ever."""
    copied: list[bytes] = []
    output = Output(copied.append)
    output.conceal(["sk-canary"])
    for piece in (b"key sk-can", b"ary\nnext ", b"x" * SMALL):
        output.feed(piece)

    assert b"".join(copied) == b"key ***\nnext " + b"x" * SMALL


async def test_a_pipe_whose_end_cannot_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends are closed: all descriptors are in use already."""
    pipe = Pipe(Output(lambda _: None))
    with monkeypatch.context() as patched:
        patched.setattr(os, "dup", no_descriptor)
        with pytest.raises(OSError, match="Too many open files"):
            pipe.ends()
    pipe.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe.write_end)


def no_descriptor(_: int) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
