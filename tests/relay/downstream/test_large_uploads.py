"""Two hundred megabytes through the installed program: they use disk, not memory, even if the form is changed."""

from __future__ import annotations

import http.client
import os
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.support import bulk_server
from tests.support.client import PATIENCE_S, Answer
from tests.support.hotseat import Hotseat
from tests.support.processes import peak_memory, reset_peak_memory

from hotseat.settings import MiB

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = f"{sys.executable} -I -S {bulk_server.__file__} ${{PORT}}"
MODELS = {"plain": {"cmd": SERVER}, "renamed": {"cmd": SERVER, "useModelName": "the-name-the-server-knows"}}
BOTH_AT_ONCE = {"all": {"swap": False, "members": list(MODELS)}}
MOST_GROWTH = 8 * MiB

NOISE = os.urandom(MiB)
AUDIO = [NOISE] * 200

Pieces = list[bytes]


def text(name: str, value: str) -> bytes:
    return f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def form(model: str, *, model_last: bool) -> Pieces:
    file = [b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n', *AUDIO, b"\r\n"]
    parts = [*file, text("model", model)] if model_last else [text("model", model), *file]
    return [*parts, text("language", "de"), b"--xyz--\r\n"]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    folder = tmp_path_factory.mktemp("hotseat")
    with Hotseat({"models": MODELS, "groups": BOTH_AT_ONCE}, folder) as rig:
        for model in MODELS:
            rig.load(model)
        yield rig


@pytest.mark.parametrize(
    ("model", "sent", "model_last"),
    [
        ("plain", "plain", True),
        ("renamed", "the-name-the-server-knows", False),
        ("renamed", "the-name-the-server-knows", True),
    ],
    ids=["as it came", "name first", "name last"],
)
def test_a_large_form_takes_no_memory(rig: Hotseat, model: str, sent: str, *, model_last: bool) -> None:
    """The server gets every byte and the changed name, and hotseat's memory hardly grows."""
    reset_peak_memory(rig.process.pid)
    before = peak_memory(rig.process.pid)
    answer = upload(rig, form(model, model_last=model_last))
    grown = peak_memory(rig.process.pid) - before

    assert answer.json() == {"missing": 0, "digest": digest(form(sent, model_last=model_last))}
    assert grown < MOST_GROWTH


def test_a_large_file_takes_no_memory(rig: Hotseat) -> None:
    """A body that is not JSON stays on disk, even if the model's JSON is changed."""
    reset_peak_memory(rig.process.pid)
    before = peak_memory(rig.process.pid)
    answer = upload(rig, AUDIO[:50], target="/upstream/renamed/inference", kind="audio/wav")
    grown = peak_memory(rig.process.pid) - before

    assert answer.json() == {"missing": 0, "digest": digest(AUDIO[:50])}
    assert grown < MOST_GROWTH


def upload(
    rig: Hotseat,
    pieces: Pieces,
    target: str = "/v1/audio/transcriptions",
    kind: str = "multipart/form-data; boundary=xyz",
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=PATIENCE_S)
    fields = {"Content-Type": kind, "Content-Length": str(sum(map(len, pieces)))}
    connection.request("POST", target, pieces, fields)
    response = connection.getresponse()
    answer = Answer(response.status, response.headers, response.read())
    connection.close()
    return answer


def digest(pieces: Pieces) -> str:
    whole = sha256()
    for piece in pieces:
        whole.update(piece)
    return whole.hexdigest()
