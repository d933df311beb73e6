"""Text fields of a multipart form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.relay.multipart import boundary_of, field, replace_field

AUDIO = bytes(range(256)) * 40


def part(head: str, value: bytes) -> bytes:
    return b"--frontier\r\n" + head.encode() + b"\r\n\r\n" + value + b"\r\n"


def text(name: str, value: str) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', value.encode())


def file(name: str, content: bytes = AUDIO) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"; filename="a.wav"\r\nContent-Type: audio/wav', content)


END = b"--frontier--\r\n"


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=frontier", b"frontier"),
        (b"Multipart/Form-Data;BOUNDARY=frontier", b"frontier"),
        (b" multipart/form-data ; charset=utf-8; boundary=frontier; x=y", b"frontier"),
        (b'multipart/form-data; boundary="a b:c"', b"a b:c"),
        (b'multipart/form-data; boundary="a\\"b"', b'a"b'),
        (
            b"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
            b"----WebKitFormBoundary7MA4YWxkTrZu0gW",
        ),
        (b"multipart/form-data", None),
        (b"multipart/form-data; boundary=", None),
        (b'multipart/form-data; boundary=""', None),
        (b"multipart/form-data; xboundary=frontier", None),
        (b"multipart/mixed; boundary=frontier", None),
        (b"multipart/form-data-not; boundary=frontier", None),
        (b"application/json", None),
        (b"", None),
    ],
)
def test_the_boundary_of_a_form(content_type: bytes, boundary: bytes | None) -> None:
    """Only a form has a boundary, quoted or not."""
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (text("model", "whisper") + file("file") + END, "whisper"),
        (file("file") + text("model", "whisper") + END, "whisper"),
        (text("prompt", "a\r\n\r\nb") + text("model", "whisper") + END, "whisper"),
        (b"a preamble\r\n" + text("model", "whisper") + END, "whisper"),
        (text("model", "whisper") + b"--frontier \t\r\n", "whisper"),
        (text("model", "grün") + END, "grün"),
        (text("model", "") + END, ""),
        (text("model", "first") + text("model", "second") + END, "first"),
        (part("content-type: text/plain\r\nCONTENT-DISPOSITION:form-data;name=model", b"whisper") + END, "whisper"),
        (part('Content-Disposition: form-data; name="mo\\del"', b"whisper") + END, "whisper"),
        (part('Content-Disposition: form-data; name="model"', b"\xff") + END, "\ufffd"),
        (text("other", "not at the start of a line: --frontier--") + text("model", "whisper") + END, "whisper"),
        (text("other", "\r\n--frontiers\r\n") + text("model", "whisper") + END, "whisper"),
        (b"--frontier\r\n" + text("model", "whisper") + END, "whisper"),
        (file("model") + END, None),
        (text("prompt", "x") + END, None),
        (END + text("model", "after the end") + END, None),
        (text("model", "without an end"), None),
        (part("Content-Type: text/plain", b"x") + END, None),
        (part("Content-Disposition: form-data", b"x") + END, None),
        (part("Content-Disposition: form-data; size=1", b"x") + END, None),
        (part("Content-Disposition: attachment; name=model", b"x") + END, None),
        (b"--frontier\r\nno blank line\r\n" + END, None),
        (part("X: " + "y" * 9000 + "\r\nContent-Disposition: form-data; name=model", b"x") + END, None),
        (b"", None),
        (AUDIO, None),
    ],
)
def test_a_field_of_a_form(body: bytes, found: str | None) -> None:
    """A text field is found in any order among files; a file is no text."""
    assert field(body, b"frontier", "model") == found
    assert field(memoryview(body), b"frontier", "model") == found


def test_the_look_ahead_is_bounded() -> None:
    """A field that does not lie whole within the limit is not found."""
    body = file("file") + text("model", "whisper") + END
    needed = len(body) - len(b"--frontier--\r\n") + len(b"--frontier--")

    assert field(body, b"frontier", "model", needed) == "whisper"
    assert field(body, b"frontier", "model", needed - 1) is None
    assert field(body, b"frontier", "model", 0) is None


@pytest.mark.parametrize(
    ("body", "replaced"),
    [
        (file("file") + text("model", "a") + END, file("file") + text("model", "longer") + END),
        (text("model", "") + file("file") + END, text("model", "longer") + file("file") + END),
        (
            text("model", "a") + text("x", "model") + text("model", "b") + END,
            text("model", "longer") + text("x", "model") + text("model", "longer") + END,
        ),
        (text("x", "model") + file("model") + END, text("x", "model") + file("model") + END),
        (b"no form", b"no form"),
    ],
)
def test_a_field_is_replaced_in_place(body: bytes, replaced: bytes) -> None:
    """Every field of that name gets the new value and nothing else changes."""
    assert replace_field(body, b"frontier", "model", "longer") == replaced


@given(before=st.binary(max_size=200), name=st.text(max_size=20), value=st.text(max_size=20))
def test_what_was_replaced_is_found(before: bytes, name: str, value: str) -> None:
    """A replaced field reads back, and putting the old value back restores every byte."""
    old, new = name.replace("--frontier", ""), value.replace("--frontier", "")
    body = file("file", before.replace(b"--frontier", b"")) + text("model", old) + END
    changed = replace_field(body, b"frontier", "model", new)

    assert field(changed, b"frontier", "model") == new
    assert replace_field(changed, b"frontier", "model", old) == body


@given(body=st.binary(max_size=100), boundary=st.binary(min_size=1, max_size=10))
def test_no_form_causes_an_exception(body: bytes, boundary: bytes) -> None:
    """Any bytes at all are searched without complaint."""
    for received in (body, b"--" + boundary + b"\r\n" + body + b"\r\n--" + boundary + b"--"):
        replaced = replace_field(received, boundary, "model", "x")

        assert field(received, boundary, "model") is not None or replaced == received
