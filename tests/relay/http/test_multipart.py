"""Text fields of a multipart form."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hotseat.errors import ClientError
from hotseat.relay.http.body import IN_MEMORY, Body
from hotseat.relay.http.multipart import MOST_FIELDS, MOST_PARTS, Field, FormReader, boundary_of
from hotseat.settings import KiB, MiB

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
    """The boundary is read from a form's content type only, quoted or not."""
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
    """A text field is found before and after files; a file is not a field."""
    assert [each.value for each in fields(body)][:1] == ([] if found is None else [found])


SENTENCES = [b"--frontier", b"\r\n", b"--", b" \t", b'Content-Disposition: form-data; name="model"', b"\r\n\r\n", b"x"]


@given(sentences=st.lists(st.sampled_from(SENTENCES), max_size=40), cuts=st.lists(st.integers(0, 400), max_size=10))
@example(sentences=SENTENCES, cuts=list(range(100)))
def test_how_a_form_is_split_makes_no_difference(sentences: list[bytes], cuts: list[int]) -> None:
    """The fields are the same however the form is split."""
    form = text("model", "first") + b"".join(sentences) + text("model", "last") + END

    assert fields(form, *cuts) == fields(form)


@given(sentences=st.lists(st.sampled_from(SENTENCES), max_size=40), boundary=st.sampled_from([b"frontier", b"-", b"x"]))
def test_what_is_found_lies_between_two_delimiters(sentences: list[bytes], boundary: bytes) -> None:
    """Each reported position holds the value, between a part's head and a delimiter."""
    form = b"".join(sentences)
    for each in fields(form, boundary=boundary):
        assert form[each.start : each.end].decode() == each.value
        assert form.startswith(b"\r\n--" + boundary, each.end)
        assert form.endswith(b"\r\n\r\n", 0, each.start)


@pytest.mark.parametrize("size", [1, 20_000], ids=["small", "larger than what is kept of it"])
def test_a_field_is_found_whole(size: int) -> None:
    """A field's end is known even if its value is too long to be kept."""
    body = file("file") + text("model", "x" * size) + END
    (found,) = fields(body, *range(0, len(body), 1_000))

    assert body[found.start : found.end] == b"x" * size
    assert found.value == "x" * min(size, len(found.value))


def test_a_reader_remembers_little() -> None:
    """A form with too many fields of that name is refused, and only a few are kept."""
    reader = FormReader(b"frontier", "model")
    for _ in range(10_000):
        reader.feed(text("model", "x"))

    with pytest.raises(ClientError, match=r"more than 16 fields called `model`; send one"):
        reader.fields()
    assert len(reader._fields) == MOST_FIELDS + 1


SPOOLED = bytes(range(256)) * (IN_MEMORY // 256 + 1)


@pytest.mark.parametrize("content", [AUDIO, SPOOLED], ids=["in memory", "on disk"])
@pytest.mark.parametrize("value", ["longer", ""])
def test_a_field_is_replaced_in_place(content: bytes, value: str) -> None:
    """Every field of that name gets the new value, and nothing else changes."""
    for before, after in [
        (file("file", content) + text("model", "a") + END, file("file", content) + text("model", value) + END),
        (text("model", "") + file("file", content) + END, text("model", value) + file("file", content) + END),
        (
            text("model", "a") + text("x", "model") + file("file", content) + text("model", "b") + END,
            text("model", value) + text("x", "model") + file("file", content) + text("model", value) + END,
        ),
        (file("model", content) + END, file("model", content) + END),
    ]:
        assert replaced(before, value) == after


@given(before=st.binary(max_size=200), name=st.text(max_size=20), value=st.text(max_size=20))
def test_what_was_replaced_is_found(before: bytes, name: str, value: str) -> None:
    """A replaced field reads back, and replacing it again restores the form."""
    old, new = name.replace("--frontier", ""), value.replace("--frontier", "")
    body = file("file", before.replace(b"--frontier", b"")) + text("model", old) + END
    changed = replaced(body, new)

    assert [each.value for each in fields(changed)] == [new]
    assert replaced(changed, old) == body


@given(body=st.binary(max_size=100), boundary=st.binary(min_size=1, max_size=10))
def test_no_form_causes_an_exception(body: bytes, boundary: bytes) -> None:
    """Arbitrary bytes raise nothing, and positions are within the form."""
    for received in (body, b"--" + boundary + b"\r\n" + body + b"\r\n--" + boundary + b"--"):
        for each in fields(received, boundary=boundary):
            assert 0 <= each.start <= each.end <= len(received)


def fields(form: bytes, *cuts: int, boundary: bytes = b"frontier") -> list[Field]:
    """The fields called `model` of a form that arrives in pieces."""
    reader = FormReader(boundary, "model")
    edges = sorted({0, *(cut for cut in cuts if cut < len(form)), len(form)})
    for start, end in pairwise(edges):
        reader.feed(form[start:end])
    return reader.fields()


def replaced(form: bytes, value: str) -> bytes:
    """What goes upstream."""
    body = Body(may_spool=True, boundary=b"frontier")
    body.add(form)
    assert body.form is not None
    body.splice([(each.start, each.end) for each in body.form.fields()], value.encode())
    sent = sent_from(body)
    body.close()

    assert len(sent) == body.size
    return sent


def sent_from(body: Body) -> bytes:
    if not body.is_spooled:
        return body.whole()
    sent = b""
    while piece := body.pieces_from(len(sent)):
        sent += piece
    return sent


@pytest.mark.parametrize("piece", [1, 4_096, 1 << 20])
def test_a_form_may_have_a_thousand_parts(piece: int) -> None:
    """A form with the maximum number of parts is read, however it is split."""
    form = file("f", b"") * (MOST_PARTS - 2) + text("model", "qwen") + END
    reader = FormReader(b"frontier", "model")
    for start in range(0, len(form), piece):
        reader.feed(form[start : start + piece])

    assert [field.value for field in reader.fields()] == ["qwen"]


@pytest.mark.parametrize("repeated", [b"\r\n--A", b"\r\n--AX", b"\r\n--A\r\n\r\n"])
def test_a_form_of_nothing_but_delimiters_costs_no_more_than_another(repeated: bytes) -> None:
    """4 MiB of delimiters take less than 0.1 s, and reading the fields raises the reason."""
    form = repeated * ((4 * MiB) // len(repeated))
    reader = FormReader(b"A", "model")
    before = time.thread_time()
    for start in range(0, len(form), 64 * KiB):
        reader.feed(form[start : start + 64 * KiB])

    assert time.thread_time() - before < 0.1
    with pytest.raises(ClientError, match=r"more than 1000 parts; send fewer, or name the model with \?model="):
        reader.fields()
