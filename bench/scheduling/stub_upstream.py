"""A model server that only takes time: loads, answers health checks, serves SLOTS requests at a time, stops slowly.

    python -I -S stub_upstream.py PORT LOAD_S STOP_S SLOTS

The request says how long its answer takes: `{"model": …, "service_s": 0.2}`. Uses the standard library, and threads
instead of an event loop, to start fast.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time


def main() -> None:
    port, load_s, stop_s, slots = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])

    def stop(*_: object) -> None:
        time.sleep(stop_s)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    time.sleep(max(0.0, load_s - age_s()))
    free = threading.BoundedSemaphore(slots)
    with socket.create_server(("127.0.0.1", port), backlog=128) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=converse, args=(connection, free), daemon=True).start()


def age_s() -> float:
    """Since this process was started: the start of the interpreter belongs to the load."""
    with open("/proc/self/stat", "rb") as stat:
        started = int(stat.read().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def converse(connection: socket.socket, free: threading.BoundedSemaphore) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as incoming:
        while head := incoming.readline():
            length = 0
            while (line := incoming.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = incoming.read(length)
            if head.startswith(b"POST"):
                with free:
                    time.sleep(json.loads(body)["service_s"])
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK")


if __name__ == "__main__":
    main()
