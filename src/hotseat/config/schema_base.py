"""What all parts of the schema share: strict forms with camelCase keys, and markers for keys without effect.

The modules that define forms do not postpone their annotations: pydantic would have to compile each of them at a start.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Discriminator, Tag, model_validator
from pydantic.alias_generators import to_camel


class Form(BaseModel):
    """A mapping of the file. Unknown keys are refused; a key without a value counts as absent."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, allow_inf_nan=False, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_yields(cls, data: Any) -> Any:
        if data is None:
            return {}
        if not isinstance(data, dict):
            return data
        known = cls.known_keys()
        return {key: value for key, value in data.items() if value is not None or key not in known}

    @classmethod
    @cache
    def known_keys(cls) -> dict[str, str]:
        """The keys a file may use, each with the name of its field."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}


class Later(Struct, frozen=True):
    """The key is read and checked, but has no effect yet. `instead` says what happens."""

    instead: str


class Ignored(Struct, frozen=True):
    """The key is read and checked, and never has an effect. `why` says why."""

    why: str


def _list_or_mapping(value: Any) -> str:
    return "<mapping>" if isinstance(value, dict) else "<list>"


def _text_or_mapping(value: Any) -> str:
    return "<mapping>" if isinstance(value, dict) else "<text>"


def _text_or_list(value: Any) -> str:
    return "<list>" if isinstance(value, list) else "<text>"


def _text_list_or_mapping(value: Any) -> str:
    return "<list>" if isinstance(value, list) else _text_or_mapping(value)


# An explicit discriminator, because a plain union reports one error per branch.
ListOrMapping = Discriminator(_list_or_mapping)
TextOrMapping = Discriminator(_text_or_mapping)
TextOrList = Discriminator(_text_or_list)
TextListOrMapping = Discriminator(_text_list_or_mapping)
AsText, AsList, AsMapping = Tag("<text>"), Tag("<list>"), Tag("<mapping>")

Words: TypeAlias = Annotated[Annotated[str, AsText] | Annotated[tuple[str, ...], AsList], TextOrList]


def is_key(secret: str) -> bool:
    """Can it be sent in a header?"""
    return bool(secret) and not any(sign.isspace() or not sign.isprintable() for sign in secret)


def is_password(secret: str) -> bool:
    """Can it be sent to NATS? That uses JSON, so it may contain spaces."""
    return bool(secret) and secret.isprintable()
