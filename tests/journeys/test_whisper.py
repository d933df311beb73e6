"""A real whisper-server, with a model of random weights (`just whisper`). On demand only (`just deep`)."""

from __future__ import annotations

import wave
from typing import TYPE_CHECKING

import pytest
from tests.support.llama import REPOSITORY, llama, present

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = [pytest.mark.llama, pytest.mark.big]

FOLDER = REPOSITORY / ".cache/whisper-server"


def whisper() -> dict[str, str]:
    """As docs/howto/whisper.md has it, with one thread, and without `--convert`, which needs ffmpeg."""
    server, model = present(FOLDER / "whisper-server"), present(FOLDER / "random.bin")
    options = "--host 127.0.0.1 --port ${PORT} --inference-path /v1/audio/transcriptions -t 1"
    return {"cmd": f"{server} -m {model} {options}"}


def test_a_recording_is_transcribed(serve: Callable[..., Hotseat], tmp_path: Path) -> None:
    """OpenAI's client gets a text for its recording, after a swap from a model for chat."""
    import openai  # here, because it takes seconds in every worker of a run

    rig = serve({"alpha": llama("alpha"), "whisper": whisper()})
    rig.load("alpha")
    with openai.OpenAI(base_url=f"{rig.url}/v1", api_key="none") as client:
        transcription = client.audio.transcriptions.create(model="whisper", file=one_second(tmp_path))

    assert transcription.text
    assert rig.running() == ["whisper"]


def one_second(folder: Path) -> Path:
    file = folder / "speech.wav"
    with wave.open(str(file), "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(16_000)
        recording.writeframes(b"\0\1" * 16_000)
    return file
