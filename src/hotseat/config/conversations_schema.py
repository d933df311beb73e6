"""The key `conversations`: on, off, or how much disk space they may use."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from hotseat.config.problems import nearest
from hotseat.config.schema_base import AsMapping, AsText, Form, TextOrMapping
from hotseat.config.units import SWITCH_SCHEMA, Size, shown
from hotseat.settings import GiB

ON, OFF = ("on", "true", "yes"), ("off", "false", "no")


class ConversationsForm(Form):
    disk: Size = 20 * GiB
    """Maximum disk space of saved conversations, further limited by the free space. 0: off."""


def _word(value: Any) -> str:
    word = str(value).lower()
    if word in ON:
        return "on"
    if word in OFF:
        return "off"
    said = f"must be on, off or a mapping such as {{disk: 20GiB}}, not {shown(value)}"
    raise ValueError(". ".join(filter(None, (said, nearest(word, (*ON, *OFF))))))


ConversationsOrSwitch: TypeAlias = Annotated[
    Annotated[Literal["off", "on"], BeforeValidator(_word), WithJsonSchema(SWITCH_SCHEMA), AsText]
    | Annotated[ConversationsForm, AsMapping],
    TextOrMapping,
]
