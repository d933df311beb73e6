"""The server's side of a websocket, for upstream.py: every message is sent back. Standard library only."""

from __future__ import annotations

import hashlib
import struct
from base64 import b64encode
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FINAL, OPCODE, LENGTH = 0x80, 0x0F, 0x7F
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
TWO_BYTES, EIGHT_BYTES = 126, 127


def echo(connection: socket.socket, incoming: BinaryIO, fields: Mapping[str, str], note: Callable[[str], None]) -> None:
    """Return when the client has closed the websocket. `note` gets each message before it is sent back."""
    connection.sendall(handshake(fields["sec-websocket-key"]))
    while True:
        opcode, data = read_frame(incoming)
        if opcode == TEXT:
            note(data.decode())
        connection.sendall(frame(PONG if opcode == PING else opcode, data))
        if opcode == CLOSE:
            return


def handshake(key: str) -> bytes:
    accepted = b64encode(hashlib.sha1(key.encode() + MAGIC, usedforsecurity=False).digest())
    head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    return head + b"Sec-WebSocket-Accept: %b\r\n\r\n" % accepted


def read_frame(incoming: BinaryIO) -> tuple[int, bytes]:
    """Of a client, and therefore masked; EOFError if it left without a word."""
    first, second = exactly(incoming, 2)
    length = second & LENGTH
    if length == TWO_BYTES:
        (length,) = struct.unpack("!H", exactly(incoming, 2))
    elif length == EIGHT_BYTES:
        (length,) = struct.unpack("!Q", exactly(incoming, 8))
    mask = exactly(incoming, 4)
    return first & OPCODE, unmasked(exactly(incoming, length), mask)


def unmasked(data: bytes, mask: bytes) -> bytes:
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(whole)).to_bytes(len(data))


def exactly(incoming: BinaryIO, length: int) -> bytes:
    data = incoming.read(length)
    if len(data) < length:
        raise EOFError
    return data


def frame(opcode: int, data: bytes) -> bytes:
    first = FINAL | opcode
    if len(data) < TWO_BYTES:
        return struct.pack("!BB", first, len(data)) + data
    if len(data) < 1 << 16:
        return struct.pack("!BBH", first, TWO_BYTES, len(data)) + data
    return struct.pack("!BBQ", first, EIGHT_BYTES, len(data)) + data
