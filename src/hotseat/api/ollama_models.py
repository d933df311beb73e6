"""The models of hotseat in the terms of Ollama's API, as far as their files and the configuration say."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hotseat.api.ollama_schemas import OllamaDetails
from hotseat.catalog.named_models import Selector
from hotseat.catalog.spec import ModelSpec
from hotseat.errors import UnknownModel, did_you_mean
from hotseat.model_files.file_kind import Role
from hotseat.ollama.names import listed_name, named_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import NamedModel
    from hotseat.identifiers import ModelName
    from hotseat.model_files.facts import ModelFacts


LONGEST_QUOTE = 120
"""Characters of an unknown name in an error."""


def known_model(name: str, catalog: Catalog) -> NamedModel:
    """What a client means; raises with the words that clients of Ollama look for."""
    found = named_model(name, catalog)
    if found is None:
        short = name[:LONGEST_QUOTE]
        hint = did_you_mean(short, catalog.names())
        raise UnknownModel(f"model '{short}' not found{'.' if hint else ''}{hint}")
    return found


def local_model(named: NamedModel, catalog: Catalog) -> ModelSpec | None:
    """The model itself, or the first target of a selector that runs here; None if it runs elsewhere."""
    if isinstance(named, Selector):
        return next((target for target in catalog.choices(named) if isinstance(target, ModelSpec)), None)
    return named if isinstance(named, ModelSpec) else None


async def facts_of(deps: ApiDeps, named: Sequence[NamedModel]) -> Mapping[ModelName, ModelFacts]:
    specs = [spec for each in named if (spec := local_model(each, deps.dispatcher.catalog)) is not None]
    return await deps.facts(specs)


def entry(name: str, facts: ModelFacts | None) -> dict[str, Any]:
    """The fields that all of Ollama's lists have."""
    listed = listed_name(name)
    return {
        "name": listed,
        "model": listed,
        "size": facts.size if facts else 0,
        "digest": digest(listed, facts),
        "details": details(facts),
    }


def digest(name: str, facts: ModelFacts | None) -> str:
    """Of the name, paths, times and sizes of its files: their contents would take minutes to read."""
    return sha256(repr((name, facts.stamps if facts else ())).encode()).hexdigest()


def details(facts: ModelFacts | None) -> OllamaDetails:
    if facts is None:
        return OllamaDetails()
    return OllamaDetails(
        format="gguf",
        family=facts.family,
        families=[facts.family],
        parameter_size=parameter_size(facts.parameters),
        quantization_level=facts.quant,
    )


def parameter_size(number: int) -> str:
    """`7.6B`, as Ollama writes it."""
    for unit, factor in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= factor:
            return f"{number / factor:.1f}{unit}"
    return str(number)


def capabilities(spec: ModelSpec | None, facts: ModelFacts | None) -> list[str]:
    """Declared or found in its files; a model of which nothing is known is taken for a chat model."""
    return [*_capabilities(spec, facts)]


def _capabilities(spec: ModelSpec | None, facts: ModelFacts | None) -> Iterator[str]:
    if facts is not None and facts.role is not Role.CHAT:
        yield "embedding"
        return
    yield "completion"
    declared = spec.capabilities if spec else None
    if (declared and "image" in declared.takes) or (facts and facts.sees_images):
        yield "vision"
    if (declared and declared.tools) or (facts and facts.uses_tools):
        yield "tools"
    if facts and facts.thinks:
        yield "thinking"


def model_info(facts: ModelFacts | None) -> dict[str, Any]:
    return {} if facts is None else {**facts.keys, "general.parameter_count": facts.parameters}


def rfc3339(at: float) -> str:
    """A wall-clock time."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
