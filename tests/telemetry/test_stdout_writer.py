"""Writing to our own output never blocks the caller, whatever the reader does."""

from __future__ import annotations

import logging
import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import eventually

from hotseat.settings import LogFormat, Logging
from hotseat.telemetry.logs import set_up
from hotseat.telemetry.stdout_writer import COPY_LIMIT, LAST_WORDS_S, LINES_LIMIT, StdoutWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = "x" * 1023
SLOW_S = 30.0
"""By how much a busy machine may be late."""


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


@pytest.fixture
def writer(pipe: tuple[int, int]) -> Iterator[StdoutWriter]:
    """Its thread ends before the number of its descriptor can become that of another file."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    writer = StdoutWriter(pipe[1])
    set_up(Logging(form=LogFormat.TEXT), writer)
    yield writer

    root.handlers[:] = handlers
    root.setLevel(level)
    os.close(pipe[0])
    writer.close()
    writer._thread.join(SLOW_S)
    os.close(pipe[1])


def read_until(fd: int, last: bytes) -> bytes:
    """All output up to a line that ends with `last`."""
    data = bytearray()
    os.set_blocking(fd, False)

    def is_there() -> bool:
        try:
            data.extend(os.read(fd, 1 << 20))
        except BlockingIOError:
            return False
        return data.endswith(last + b"\n")

    eventually(is_there)
    return bytes(data)


def test_lines_are_written_in_their_order(pipe: tuple[int, int], writer: StdoutWriter) -> None:
    """Copies of the servers' output are in order too."""
    logging.getLogger("hotseat.test").info("first")
    writer.put_copy(lambda: b"copied\n", 7)
    logging.getLogger("hotseat.test").info("last")

    assert read_until(pipe[0], b"last") == b"INFO first\ncopied\nINFO last\n"


def test_lines_that_nobody_reads_are_dropped_and_counted_in_one_line(
    pipe: tuple[int, int], writer: StdoutWriter
) -> None:
    """The caller never waits, and a reader that returns gets one line about the missing ones."""
    lines = 2 * LINES_LIMIT // len(LINE)
    for _ in range(lines):
        writer.put_line(LINE)
    dropped = writer.lines_dropped
    read = read_until(pipe[0], b"lines=%d" % dropped).splitlines()

    assert read.count(LINE.encode()) == lines - dropped
    assert read[-1] == b"WARNING log lines were dropped because the output was not read lines=%d" % dropped
    writer.put_line("and on")
    assert read_until(pipe[0], b"and on") == b"and on\n"


def test_a_server_that_writes_much_does_not_crowd_out_our_own_lines(
    pipe: tuple[int, int], writer: StdoutWriter
) -> None:
    """Copies of its output are dropped first."""
    for _ in range(2 * COPY_LIMIT // len(LINE)):
        writer.put_copy(lambda: LINE.encode() + b"\n", len(LINE))
    writer.put_line("our own")
    dropped = writer._unreported_bytes

    assert dropped > COPY_LIMIT / 2
    assert b"our own\n" in read_until(pipe[0], b"bytes=%d" % dropped)
    assert writer.lines_dropped == 0


def test_a_piece_that_cannot_be_made_costs_no_other(pipe: tuple[int, int], writer: StdoutWriter) -> None:
    """The thread continues with the next item."""
    with writer._changed:  # the thread sees both at once
        writer.put_copy(lambda: bytes(1 // 0), 1)
        writer.put_line("next")

    assert b"next\n" in read_until(pipe[0], b"by zero")


def test_a_pipe_that_does_not_block_gets_every_line(pipe: tuple[int, int], writer: StdoutWriter) -> None:
    """Some supervisors make the pipe non-blocking."""
    os.set_blocking(pipe[1], False)
    for _ in range(1000):
        writer.put_line(LINE)
    writer.put_line("last")

    assert read_until(pipe[0], b"last").count(LINE.encode()) == 1000


def test_the_end_waits_a_moment_for_a_reader_and_no_longer(pipe: tuple[int, int], writer: StdoutWriter) -> None:
    """A full pipe does not keep the process from exiting, however long nobody reads it."""
    for _ in range(1000):
        writer.put_line(LINE)
    began = time.monotonic()
    writer.close()

    assert time.monotonic() - began < LAST_WORDS_S + SLOW_S


def test_output_that_nobody_can_read_any_more_is_given_up() -> None:
    """`hotseat serve | head` continues to serve."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with closing(StdoutWriter(write_end)) as writer:
        writer.put_line("lost")
    os.close(write_end)

    assert not writer._thread.is_alive()
