"""PURE: what a request of Ollama's API says about the answer: sampling, reasoning and form."""

from __future__ import annotations

from typing import Any

import msgspec

from hotseat.errors import ClientError
from hotseat.ollama.messages import NOTHING

NULL = msgspec.Raw(b"null")
ANY_OBJECT = msgspec.Raw(b'{"type":"object"}')
RENAMED = {"num_keep": "n_keep"}


class Options(msgspec.Struct):
    """Those that a model server can apply to one request. Ollama's names are llama-server's, except those renamed."""

    temperature: msgspec.Raw = NOTHING
    top_p: msgspec.Raw = NOTHING
    top_k: msgspec.Raw = NOTHING
    min_p: msgspec.Raw = NOTHING
    typical_p: msgspec.Raw = NOTHING
    seed: msgspec.Raw = NOTHING
    stop: msgspec.Raw = NOTHING
    repeat_penalty: msgspec.Raw = NOTHING
    repeat_last_n: msgspec.Raw = NOTHING
    presence_penalty: msgspec.Raw = NOTHING
    frequency_penalty: msgspec.Raw = NOTHING
    mirostat: msgspec.Raw = NOTHING
    mirostat_tau: msgspec.Raw = NOTHING
    mirostat_eta: msgspec.Raw = NOTHING
    num_keep: msgspec.Raw = NOTHING
    num_predict: msgspec.Raw = NOTHING


def sampling(options: Options | None) -> dict[str, Any]:
    options = options or Options()
    said = {name: getattr(options, name) for name in options.__struct_fields__}
    members = {RENAMED.get(name, name): value for name, value in said.items() if value not in (NOTHING, NULL)}
    most = members.pop("num_predict", NULL)
    if not bytes(most).startswith((b"-", b"null")):  # negative: until the model or its context ends
        members["max_tokens"] = most
    return members


def for_template(think: bool | str | None, form: msgspec.Raw) -> dict[str, Any]:
    """What only a chat has: reasoning, and the form of the answer."""
    members: dict[str, Any] = {}
    if think is not None and think != "":
        members["chat_template_kwargs"] = {"enable_thinking": think is not False}
    if isinstance(think, str) and think:
        members["reasoning_effort"] = think
        members["chat_template_kwargs"]["reasoning_effort"] = think
    if (schema := _schema(form)) is not None:
        members["response_format"] = _response_format(schema)
    return members


def plain_format(form: msgspec.Raw) -> dict[str, Any]:
    """llama-server's name for the same, where there are no messages; others know OpenAI's."""
    if (schema := _schema(form)) is None:
        return {}
    return {"json_schema": schema, "response_format": _response_format(schema)}


def _response_format(schema: msgspec.Raw) -> dict[str, Any]:
    if schema is ANY_OBJECT:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "response", "strict": True, "schema": schema}}


def _schema(form: msgspec.Raw) -> msgspec.Raw | None:
    """`json`, or a JSON schema."""
    said = bytes(form)
    if said in (b"", b"null", b'""'):
        return None
    if said == b'"json"':
        return ANY_OBJECT
    if not said.startswith(b"{"):
        raise ClientError('`format` in the request body must be "json" or a JSON schema')
    return form
