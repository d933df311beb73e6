"""PURE: does the head of a form's part mean the same to every parser?"""

from __future__ import annotations

import re

_PLAIN_DISPOSITION = re.compile(
    rb"content-disposition: ?form-data; ?name=(?:\"([^\"\\\r\n]*)\"|([^\s;\"\\=*]+))"
    rb"(; ?filename=(?:\"[^\"\\\r\n]*\"|[^\s;\"\\]+)(?:; ?filename\*=[^\s;\"\\]+)?)?",
    re.I,
)
_HARMLESS = re.compile(rb"content-(?:(?:type|length): ?[^\r\n]*|transfer-encoding: ?(?:binary|8bit|7bit))", re.I)


def is_plain_part(head: bytes, name: bytes) -> bool:
    """Do all parsers agree on the name of the part, and on whether it is the field `name` or a file?"""
    lines = head.split(b"\r\n")
    found = [match for match in map(_PLAIN_DISPOSITION.fullmatch, lines) if match]
    if len(found) != 1 or len(lines) != 1 + sum(_HARMLESS.fullmatch(line) is not None for line in lines):
        return False
    quoted, plain, file = found[0].groups()
    return file is None or (quoted or plain) != name
