"""A stand-in for llama-server's slots: a standalone program that uses the standard library only.

    python -I -S slots_stand_in.py --port 8080 [--slots N] [--settings FOLDER] [--api-key KEY] [--trouble WHAT:HOW]

Its slots are unused until `POST /talk [100, 0, 50]` says how many tokens the conversation in each of them has. It saves
and restores files in LLAMA_ARG_SLOT_SAVE_PATH as llama-server does. `--trouble` makes one kind of request (slots,
props, save, restore, erase) hang, die, answer a status, answer rubbish, or lie. `settings.json` in FOLDER may change
its context and build. It prints everything it does.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

HEAD = struct.Struct("<IIIiII")
MAGIC, VERSION = 0x67677371, 4
PER_TOKEN = 1000
"""Bytes in a file."""
RUBBISH = b'{"n_saved": "many", "total_slots": [], "id": null}'


def say(*words: object) -> None:
    print(*words, flush=True)


class Slots:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tokens = [0] * options.slots
        self.tasks = [-1] * options.slots
        self.busy: list[int] = []
        self.folder = os.environ.get("LLAMA_ARG_SLOT_SAVE_PATH", "")

    def listed(self) -> list[dict[str, Any]]:
        return [
            {"id": n, "is_processing": n in self.busy, "id_task": task, "n_prompt_tokens": count}
            for n, (count, task) in enumerate(zip(self.tokens, self.tasks, strict=True))
        ]

    def talk(self, tokens: list[int], busy: list[int]) -> None:
        self.busy = busy
        for slot, count in enumerate(tokens):
            self.tasks[slot] += self.tokens[slot] != count
            self.tokens[slot] = count

    def props(self) -> dict[str, Any]:
        settings = {"context": 4096, "build": "b1"}
        if self.options.settings:
            with open(os.path.join(self.options.settings, "settings.json")) as file:
                settings |= json.load(file)
        return {
            "total_slots": len(self.tokens),
            "default_generation_settings": {"n_ctx": settings["context"]},
            "build_info": settings["build"],
        }

    def save(self, slot: int, name: str) -> dict[str, Any]:
        count = self.tokens[slot]
        magic = MAGIC + (self.options.trouble == "save:in another format")
        head = HEAD.pack(magic, VERSION, count + 4, -1, 1, count)
        data = head + struct.pack("<i", slot + 1) * count + bytes(4 + PER_TOKEN * count)
        written = {"truncates": data[:-1], "writes nothing": b""}.get(self.options.trouble.partition(":")[2], data)
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(written)
        size = len(written) if self.options.trouble == "save:writes nothing" else len(data)
        say("saved", slot, count)
        return {"id_slot": slot, "filename": name, "n_saved": count, "n_written": size}

    def begin_to_save(self) -> None:
        """A file that nobody finishes."""
        with open(os.path.join(self.folder, "half.part"), "wb") as file:
            file.write(HEAD.pack(MAGIC, VERSION, 0, -1, 1, 0))

    def restore(self, slot: int, name: str) -> dict[str, Any]:
        with open(os.path.join(self.folder, name), "rb") as file:
            data = file.read()
        *_, count = HEAD.unpack(data[: HEAD.size])
        count -= self.options.trouble == "restore:lies"
        self.tokens[slot] = count
        say("restored", slot, count)
        return {"id_slot": slot, "filename": name, "n_restored": count, "n_read": len(data)}

    def erase(self, slot: int) -> dict[str, Any]:
        self.tokens[slot] = 0
        say("erased", slot)
        return {"id_slot": slot, "n_erased": 1}


class Handler(BaseHTTPRequestHandler):
    slots: Slots
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "llama.cpp", ""

    def version_string(self) -> str:
        return "llama.cpp"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/health":
            self._send(200, b'{"status": "ok"}')
        elif not self._is_refused() and not self._is_in_trouble(path.strip("/")):
            self._send(200, json.dumps(self.slots.listed() if path == "/slots" else self.slots.props()).encode())

    def do_POST(self) -> None:
        target = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if target.path == "/talk":
            self.slots.talk(**body)
            return self._send(200, b"{}")
        action, slot = parse_qs(target.query)["action"][0], int(target.path.rpartition("/")[2])
        if self._is_refused() or self._is_in_trouble(action):
            return None
        try:
            done = getattr(self.slots, action)(slot, *filter(None, [body.get("filename")]))
        except OSError as problem:
            return self._send(400, json.dumps({"error": {"message": str(problem)}}).encode())
        return self._send(200, json.dumps(done).encode())

    def _is_refused(self) -> bool:
        key = self.slots.options.key
        is_refused = bool(key) and self.headers.get("Authorization") != f"Bearer {key}"
        if is_refused:
            self._send(401, b'{"error": {"message": "Invalid API Key"}}')
        return is_refused

    def _is_in_trouble(self, what: str) -> bool:
        kind, _, how = self.slots.options.trouble.partition(":")
        if kind != what or not (how in ("hangs", "dies", "rubbish", "a page") or how.isdigit()):
            return False
        if what == "save" and how in ("hangs", "dies"):
            self.slots.begin_to_save()
        say("asked to", what)
        if how == "hangs":
            threading.Event().wait()
        if how == "dies":
            os._exit(3)
        bodies = {"rubbish": RUBBISH, "a page": b"<html>"}
        self._send(200 if how in bodies else int(how), bodies.get(how, b'{"error": {"message": "it cannot"}}'))
        return True

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--settings", default="")
    parser.add_argument("--api-key", dest="key", default="")
    parser.add_argument("--trouble", default="")
    Handler.slots = Slots(parser.parse_args())
    server = ThreadingHTTPServer(("127.0.0.1", Handler.slots.options.port), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
