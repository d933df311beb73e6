"""The published schema: JSON Schema 2020-12, with a title and a description for every key."""

from __future__ import annotations

from typing import Any

from hotseat.config.schema import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema with which an editor completes and checks a configuration file."""
    schema = Config.model_json_schema()
    for form in (schema, *schema["$defs"].values()):
        for key, described in form.get("properties", {}).items():
            described["title"] = key
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["modelsDir"]}]
    extensions = {r"^(x-|\.)": {"description": "For your own use; hotseat ignores it."}}
    return {"$schema": DIALECT, **schema, "title": "hotseat configuration", "patternProperties": extensions}
