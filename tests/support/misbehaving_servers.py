"""Small servers that misbehave in one way each. A standalone program that uses the standard library only.

    python -I -S misbehaving_servers.py BEHAVIOUR PORT [ARGUMENT…]

`never_ready 8080` runs that behaviour on that port. Prints what a test must know, such as a grandchild's pid.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
NAMED = HEALTHY.replace(b"\r\n", b"\r\nServer: llama.cpp\r\n", 1)
LOADING = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\nConnection: close\r\n\r\nloading"
ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: /ready\r\nContent-Length: 0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ONE_EVENT = b'f\r\ndata: {"n": 1}\r\n\r\n'


def say(*words: object) -> None:
    print(*words, flush=True)


def wait_for_ever() -> None:
    while True:
        signal.pause()


def serve(listener: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    """Answer every request on every connection with `answer(request line)`."""
    connections = [listener]
    while True:
        for ready in select.select(connections, [], [])[0]:
            if ready is listener:
                connections.append(listener.accept()[0])
                continue
            try:
                request = ready.recv(65536)
                ready.sendall(answer(request.partition(b"\r\n")[0]) if request else b"")
            except OSError:
                request = b""
            if not request:
                connections.remove(ready)
                ready.close()


def listen(port: str, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def be_asked(port: str, answer: Callable[[bytes], bytes]) -> None:
    """Say it whenever somebody asks."""

    def logged(line: bytes) -> bytes:
        say("asked")
        return answer(line)

    serve(listen(port), logged)


def be_healthy(port: str) -> None:
    serve(listen(port), lambda line: HEALTHY if b"/health" in line else LOADING)


# The behaviours


def healthy(port: str) -> None:
    be_healthy(port)


def tells_its_slots(port: str) -> None:
    """As llama-server does at /props."""
    body = b'{"total_slots": 3, "default_generation_settings": {"n_ctx": 4096}}'
    response = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    listener = listen(port)
    while True:
        connection, _ = listener.accept()
        connection.sendall(response if b" /props " in connection.recv(65536) else NAMED)
        connection.close()


def slow_to_load(port: str, seconds: str) -> None:
    """Listens at once and is ready later, as llama-server does."""
    ready_at = time.monotonic() + float(seconds)
    say("ready at", ready_at)
    serve(listen(port), lambda _: HEALTHY if time.monotonic() >= ready_at else LOADING)


def never_ready(port: str) -> None:
    say("loading tensors")
    be_asked(port, lambda _: LOADING)


def downloads_first(port: str, file: str, *_: str) -> None:
    """Writes to a file until another one named DONE is beside it, then serves."""
    done = os.path.join(os.path.dirname(file), "DONE")
    with open(file, "wb", buffering=0) as model:
        while not os.path.exists(done):
            model.write(bytes(1 << 18))
            model.seek(0)
            os.fsync(model.fileno())  # as slow as the disk
    be_healthy(port)


def stops_downloading(port: str, *_: str) -> None:
    never_ready(port)


def maps_half(port: str, file: str) -> None:
    """Reads half of a file, as a server that maps its weights does."""
    size = os.path.getsize(file)
    with open(file, "rb") as weights, mmap.mmap(weights.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        say("took in", sum(mapped[at] for at in range(0, size // 2, mmap.PAGESIZE)))
        serve(listen(port), lambda _: LOADING)


def never_listens(port: str) -> None:
    say("reading", port)
    wait_for_ever()


def binds_only(port: str) -> None:
    """Never listens either, but keeps others from listening on its port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", int(port)))
        say("reading", port)
        wait_for_ever()


def hangs_health(port: str) -> None:
    be_asked(port, lambda _: b"")


def computes_when_asked(port: str) -> None:
    """On its only thread, so that no other request is answered."""

    def answer(line: bytes) -> bytes:
        if b"/compute" in line:
            say("computing")
            while True:
                pass
        return HEALTHY

    serve(listen(port), answer)


def talks_nonsense(port: str) -> None:
    be_asked(port, lambda _: b"220 mail.example.org ESMTP\r\n")


def hangs_health_once(port: str) -> None:
    """Does not answer the first health check, as a server that starts in two steps does."""
    questions = iter([b""])
    serve(listen(port), lambda _: next(questions, HEALTHY))


def hangs_after_503(port: str) -> None:
    """Answers one health check and none after it."""
    answers = iter([LOADING])
    be_asked(port, lambda _: next(answers, b""))


def sends_elsewhere(port: str) -> None:
    be_asked(port, lambda line: HEALTHY if b"/ready" in line else ELSEWHERE)


def answers_204(port: str) -> None:
    be_asked(port, lambda _: NO_CONTENT)


def knows_one_path(port: str, path: str) -> None:
    serve(listen(port), lambda line: HEALTHY if line.split()[1] == path.encode() else LOADING)


def speaks_ipv6_only(port: str) -> None:
    serve(listen(port, "::1"), lambda _: HEALTHY)


def on_unix_socket(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    serve(listener, lambda _: HEALTHY)


def speaks_tls(port: str, certificate: str) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with context.wrap_socket(listen(port), server_side=True) as listener:
        while True:
            try:
                connection, _ = listener.accept()
                connection.recv(65536)
                connection.sendall(HEALTHY)
            except OSError:  # the client rejected our certificate
                say("no handshake")


def dies_while_loading(port: str, code: str = "1") -> None:
    print("error: failed to load model", "on port", port, file=sys.stderr, flush=True)
    sys.exit(int(code))


def dies_by_signal(port: str, number: str) -> None:
    say("dying on port", port)
    os.kill(os.getpid(), int(number))


def dies_mid_stream(port: str) -> None:
    """Healthy until any other request: then it begins to answer and dies."""
    listener = listen(port)
    while True:
        connection, _ = listener.accept()
        request = connection.recv(65536)
        if b" /health " in request:
            connection.sendall(HEALTHY)
            connection.close()
        elif request:
            connection.sendall(STREAM_HEAD + ONE_EVENT)
            say("thread panicked")
            os._exit(1)


def ignores_sigterm(port: str, *_: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    be_healthy(port)


def tells_of_sigterm(port: str) -> None:
    def end(*_: object) -> None:
        say("asked to end")
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    be_healthy(port)


def ends_gracefully(port: str, note: str) -> None:
    """Writes what it is asked to do, and writes its end a moment later; whoever asks twice is in a hurry."""

    def finish(*_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
        write("asked")
        select.select([], [], [], 0.15)
        write("ended")
        os._exit(0)

    def write(word: str) -> None:
        with open(note, "a") as notes:
            notes.write(f"{word}\n")

    signal.signal(signal.SIGTERM, finish)
    be_healthy(port)


def listens_in_a_child(port: str) -> None:
    """As a shell script does that starts the server without `exec`."""
    if os.fork() == 0:
        be_healthy(port)
    wait_for_ever()


def leaks_grandchildren(port: str, how: str) -> None:
    """Leaves a process behind that ignores SIGTERM: in its group, in a session of its own, or without environment."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        if how != "plain":
            os.setsid()
            if os.fork():
                os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("grandchild", os.getpid())
        os.write(writer, b"!")
        if how == "wiped":
            os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, "detached", "0"], {})
        wait_for_ever()
    os.read(reader, 1)  # whoever sees it ready may look for the grandchild
    be_healthy(port)


def detached(_: str) -> None:
    wait_for_ever()


def is_monitored(port: str, afterwards: str, *_: str) -> None:
    """Leaves a daemon behind, as podman does: named conmon, without our environment, it ends after us."""
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    if starter := os.fork():
        os.waitpid(starter, 0)
    else:
        pid = os.posix_spawn(
            "/bin/sh",
            ["/usr/bin/conmon", "-c", f"cat <&{reader}; {afterwards}", "-n", "qwen"],
            {"PATH": os.environ["PATH"]},
            file_actions=[(os.POSIX_SPAWN_CLOSE, writer)],
            setsid=True,
        )
        say("monitor", pid)
        os._exit(0)
    be_healthy(port)


def babbles(port: str, megabytes: str) -> None:
    line = b"token token token token token token token token token token 12\n"
    listener = listen(port)
    for _ in range(int(megabytes)):
        os.write(1, line * (1_000_000 // len(line)))
    say("\nsaid it all")
    serve(listener, lambda _: HEALTHY)


def prints_its_environment(port: str, *_: str) -> None:
    for name, value in sorted(os.environ.items()):
        print(f"{name}={value}")
    say("session", os.getsid(0) == os.getpid(), "stdin", os.read(0, 1), "fds", sorted(os.listdir("/proc/self/fd")))
    be_healthy(port)


def prints_its_arguments(port: str, *words: str) -> None:
    say("started with", port, *words)
    be_healthy(port)


# Variants of `cmdStop`: the port is the pid to stop


def stop_politely(pid: str, note: str) -> None:
    with open(note, "a") as notes:
        notes.write(f"stopping {pid}\n")
    os.kill(int(pid), signal.SIGTERM)


def fail_to_stop(pid: str) -> None:
    say("cannot stop", pid)
    sys.exit(3)


def hang_while_stopping(pid: str) -> None:
    say("stopping", pid)
    wait_for_ever()


if __name__ == "__main__":
    _, behaviour, *arguments = sys.argv
    globals()[behaviour](*arguments)
