"""The documented routes of other programs that hotseat answers, for the oracle; calls no hotseat code."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

NOTHING, STARTS, STOPS, STOPS_ALL = "", "starts", "stops", "stops all"
ROUTES = (
    # llama.cpp's router
    ("GET /models", "inference", NOTHING),
    ("(POST|DELETE) /models", "operate", NOTHING),
    ("POST /models/load", "operate", STARTS),
    ("POST /models/unload", "operate", STOPS),
    ("GET /models/sse", "inference", NOTHING),
    # llama-swap
    ("GET /unload", "operate", STOPS_ALL),
    ("GET /logs", "operate", NOTHING),
    ("GET /logs/stream(/.*)?", "operate", NOTHING),
    ("POST /api/models/unload", "operate", STOPS_ALL),
    ("POST /api/models/unload/.*", "operate", STOPS),
    ("GET /api/(events|metrics|metrics/activity)", "operate", NOTHING),
    ("GET /ui(/.*)?", "inference", NOTHING),
    ("GET /upstream", "inference", NOTHING),
)
VERSIONLESS = re.compile("/v/(chat/completions|responses|completions|messages(/count_tokens)?|embeddings|rerank(ing)?)")
"""llama-swap's paths without a version: forwarded without `/v`."""


def documented(method: str, path: str) -> tuple[str, str] | None:
    """The role that a route of another program needs, and its effect; None if hotseat forwards it."""
    said = f"{'GET' if method == 'HEAD' else method} {path}"
    return next(((role, effect) for form, role, effect in ROUTES if re.fullmatch(form, said)), None)


def named(path: str, body: bytes) -> str:
    """The model that such a request names; empty if it names none."""
    if path.startswith("/api/models/unload/"):
        return unquote(path.removeprefix("/api/models/unload/"))
    try:
        return str(json.loads(body)["model"])
    except (ValueError, KeyError, TypeError):
        return ""
