"""What servers write is kept, followed and copied, and never slows them down."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import model
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers.output import GATHER_S, KEPT, SKIPPED, SMALL, Output, Outputs, Pipe
from hotseat.model_servers.stdout_copy import LONGEST_LINE, StdoutCopy

if TYPE_CHECKING:
    from tests.support.supervisor_rig import SupervisorRig

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


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
        await come_true(lambda: output.tail(1) == [line.decode().strip()])  # noqa: B023
    os.close(pipe.write_end)
    pipe.close()

    assert output.tail() == ["one", "two"]


def test_the_last_lines_are_kept() -> None:
    output = Output()
    output.feed(b"one\ntwo\nthr")
    output.feed(b"ee\n")

    assert output.tail(2) == ["two", "three"]
    assert output.tail(20) == ["one", "two", "three"]
    assert output.tail(0) == []


def test_nothing_written_is_no_line() -> None:
    assert Output().tail() == []


def test_an_unfinished_line_is_kept_too() -> None:
    """A server that dies in the middle of a word has said it."""
    output = Output()
    output.feed(b"loading\nCUDA error: out of mem")

    assert output.tail(1) == ["CUDA error: out of mem"]


def test_lines_since_a_place_leave_out_what_was_before() -> None:
    """Output of the previous launch is left out, also if its end is no longer in the buffer."""
    output = Output()
    output.feed(b"old\n")
    place = output.written
    output.feed(b"new\n")

    assert output.tail(since=place) == ["new"]
    assert output.tail(since=output.written) == []
    output.feed(b"x" * KEPT + b"\nlast\n")
    assert output.tail(1, since=place) == ["last"]


def test_no_more_than_the_ring_holds_is_kept() -> None:
    """Whether it comes in big pieces or in a million dots."""
    output = Output()
    for _ in range(300_000):
        output.feed(b".")
    dots = len("".join(output.tail(1)))
    for number in range(1000):
        output.feed(b"%d " % number * 1000)
    kept = "\n".join(output.tail(1_000_000))

    assert KEPT <= dots < KEPT + 8192
    assert KEPT <= len(kept) < KEPT + 8192
    assert kept.endswith("999 ")


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

    assert output.tail(1) == [read]


@pytest.mark.parametrize(
    "piece", [b"\x1b]", b"\x1bP", b"\x1b[", b"\x1b[1", b"\x1b(", b"\x1b\x1b", b"\r", b"\x1b]0;\xff"]
)
def test_the_longest_line_is_cleaned_in_time_proportional_to_its_length(piece: bytes) -> None:
    """Whatever it repeats: lines are cleaned on the event loop, where every other request would wait."""
    output = Output()
    output.feed((piece * KEPT)[:KEPT] + b".")
    used = time.process_time()
    [line] = output.tail(1)

    assert time.process_time() - used < 0.5
    assert "\x1b" not in line


def test_secrets_are_hidden_from_readers() -> None:
    output = Output()
    output.conceal(["sk-canary"])
    output.feed(b"args: {'api_key': ['sk-canary']}\n")

    assert output.tail(1) == ["args: {'api_key': ['***']}"]


async def test_a_follower_reads_lines_as_they_are_written() -> None:
    """Whole lines, however they were cut into pieces, and none from before."""
    output = Output()
    output.feed(b"before\n")
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    output.feed(b"on")
    output.feed(b"e\ntwo\nthr")

    assert [await first, await anext(lines)] == ["one", "two"]
    await lines.aclose()


async def test_a_follower_who_falls_behind_gets_a_skip_notice() -> None:
    """Nothing is buffered without bound for a slow reader."""
    output = Output()
    lines = output.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await asyncio.sleep(0)
    for number in range(100_000):
        output.feed(b"line %d\n" % number)

    assert await first == SKIPPED
    rest = [await anext(lines) for _ in range(10)]
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
