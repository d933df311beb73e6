"""The program goes on serving where nobody reads what it writes."""

from __future__ import annotations

import http.client
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from tests.support.client import PATIENCE_S
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.hotseat import Hotseat

CONFIG = {
    "logToStdout": "both",
    "logLevel": "debug",
    "models": {"qwen": {"cmd": "sh -c 'seq 20000; exit 1'", "proxy": "http://127.0.0.1:9"}},
}


def fill(fd: int) -> None:
    os.set_blocking(fd, False)
    try:
        while os.write(fd, b"." * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(fd, True)


def status(rig: Hotseat, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", rig.port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def read_all(fd: int, into: bytearray) -> None:
    while piece := os.read(fd, 1 << 20):
        into += piece


def test_a_pipe_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    """Neither requests nor starts nor the end: it answers, tries to load, and exits on SIGTERM."""
    read_end, write_end = os.pipe()
    fill(write_end)
    with ForkedHotseat(CONFIG, tmp_path, output=write_end) as rig:
        os.close(write_end)
        assert status(rig, "/upstream/qwen/load") == 503
        assert status(rig, "/health") == 200
        assert rig.terminate() == 0
    os.close(read_end)


def test_a_reader_who_comes_back_gets_the_lines_that_waited(tmp_path: Path) -> None:
    """What was logged while nobody read is there, the end included."""
    read_end, write_end = os.pipe()
    fill(write_end)
    with ForkedHotseat(CONFIG, tmp_path, output=write_end) as rig:
        os.close(write_end)
        status(rig, "/upstream/qwen/load")
        read = bytearray()
        with ThreadPoolExecutor(1) as reader:
            reading = reader.submit(read_all, read_end, read)
            # At its end it waits only a second for its reader.
            eventually(lambda: b"model server failed to start" in read)
            rig.terminate()
            reading.result(PATIENCE_S)
    os.close(read_end)

    assert b"shutting down" in read
