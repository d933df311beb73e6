"""`hotseat schema`: the JSON Schema of the configuration file, for editors and for CI."""

from __future__ import annotations

import json

from hotseat.config.json_schema import json_schema


def schema() -> int:
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
