"""The requests and behaviour of clients, drawn from the seed: the same seed gives the same requests."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from enum import Enum

PATIENCE_S = 45.0
"""An answer that takes longer than this is an error, whatever fault was injected."""

REAL = "alpha"
"""The model that a real llama-server serves."""
PROMPTS = tuple(
    "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz      ", k=length))
    for seed, length in ((1, 720), (2, 700), (3, 640))
)
"""What it is asked: long enough to be worth saving when it is swapped out. The answers differ from each other, and each
is the same in any batch and after any part of the prompt that is cached."""
STUBS = {"red": 4, "green": 4, "blue": 6, "white": 10}
"""The models that upstream.py serves, with the GiB that each takes."""
BUDGET_GIB, REAL_GIB = 10, 4

REQUEST_FAULTS = (
    "late", "slow", "error", "reset-early", "fin-early", "die-early", "garble-head", "reset-mid", "fin-mid", "die-mid",
    "garble-mid", "stall-mid", "close-end", "close-reset",
)  # fmt: skip
"""Faults of the upstream for one request."""
RATES = [0.3 if fault.startswith("die") else 2 for fault in REQUEST_FAULTS]
"""A server that dies fails other requests too, so these faults are rarer."""


class Kind(Enum):
    UNARY = "unary"
    STREAM = "stream"
    UPLOAD = "upload"
    MESSAGE = "websocket message"


class Behaviour(Enum):
    PATIENT = "patient"
    HANGS_UP = "hangs up"
    SLOW = "reads and uploads slowly"


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    id: str
    model: str
    kind: Kind
    fault: str
    """Empty: the upstream behaves."""
    behaviour: Behaviour
    words: int
    leaves_after_s: float
    """For clients that disconnect."""
    prompt: int = 0
    """Of the real model."""

    @property
    def expected(self) -> str:
        """The only correct answer of a model that upstream.py serves."""
        if self.kind is Kind.UPLOAD:
            return hashlib.sha256(self.upload()).hexdigest()
        return " ".join(f"{self.model}/{self.id}/{n}" for n in range(self.words))

    def upload(self) -> bytes:
        return random.Random(self.id).randbytes(1 << 16) * (20 + self.words % 20)

    @property
    def is_obeyed(self) -> bool:
        return self.model in STUBS


def draw(rng: random.Random, name: str) -> PlannedRequest:
    model = rng.choices([*STUBS, REAL], [4, 4, 3, 1, 1])[0]
    kind = rng.choices(list(Kind), [6, 6, 0.2 if model in STUBS else 0, 0])[0]
    fault = rng.choices(REQUEST_FAULTS, RATES)[0] if model in STUBS and rng.random() < 0.12 else ""
    if kind is not Kind.STREAM and fault == "garble-mid":
        fault = "fin-mid"  # a body with a length has no framing to corrupt
    behaviour = rng.choices(list(Behaviour), [16, 2, 1])[0]
    if fault in ("stall-mid", "late"):
        behaviour = Behaviour.HANGS_UP
    words = rng.choice([1, 8, 40, 40, 400]) if model in STUBS else 8
    if behaviour is Behaviour.SLOW and model in STUBS:
        words = 2_000
    leaves_after_s, prompt = rng.choice([0.0, 0.02, 0.2, 1.0, 4.0]), rng.randrange(len(PROMPTS))
    return PlannedRequest(name, model, kind, fault, behaviour, words, leaves_after_s, prompt)
