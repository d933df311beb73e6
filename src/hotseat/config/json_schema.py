"""The published schema: JSON Schema 2020-12, with a title and a description for every key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.config.descriptions import descriptions
from hotseat.config.schema import Config
from hotseat.config.schema_base import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema with which an editor completes and checks a configuration file."""
    schema = Config.model_json_schema()
    forms = {form.__name__: form for form in subclasses(Form)}
    for name, shape in {Config.__name__: schema, **schema["$defs"]}.items():
        if name in forms:
            name_keys(shape.get("properties", {}), forms[name])
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["modelsDir"]}]
    extensions = {r"^(x-|\.)": {"description": "For your own use; hotseat ignores it."}}
    return {"$schema": DIALECT, **schema, "title": "hotseat configuration", "patternProperties": extensions}


def name_keys(properties: dict[str, Any], form: type[Form]) -> None:
    texts = descriptions(form)
    for key, field in form.known_keys().items():
        if field in texts:
            properties[key].setdefault("description", texts[field])
        properties[key]["title"] = key


def subclasses(form: type[Form]) -> Iterator[type[Form]]:
    for each in form.__subclasses__():
        yield each
        yield from subclasses(each)
