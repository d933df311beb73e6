"""Ollama's API, as far as no model server is needed to answer: for tools that know only Ollama.

Lists and descriptions of the models, loads and unloads by requests without a message or prompt, and what is refused.
The relay translates all other requests to these paths for a model server. The names of the fields are Ollama's.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import Field

from hotseat.api.deps import ApiDeps, Caller, Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.routes.v1_models import listed
from hotseat.api.schema_base import Error, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.catalog.named_models import Selector
from hotseat.catalog.spec import ModelSpec
from hotseat.errors import ClientError, NotImplementedHere, UnknownModel, did_you_mean
from hotseat.identifiers import CENTURY_S, RAM, ClientId
from hotseat.model_files.file_kind import Role
from hotseat.ollama.names import listed_name, named_model
from hotseat.ollama.requests import keep_alive_s
from hotseat.scheduling.events import KeepAliveChanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.activity.usage import Account
    from hotseat.api.routes.management import Responses
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import NamedModel
    from hotseat.identifiers import Bytes, ModelName, Seconds
    from hotseat.model_files.facts import ModelFacts
    from hotseat.scheduling.view import ModelView, View

router = APIRouter(tags=["ollama"])

VERSION = "0.12.0"
"""The version of Ollama whose API this is; clients refuse to work with older ones."""
SHOW_ERRORS: Responses = {
    400: {"model": Error, "description": "The body is not JSON."},
    404: {"model": Error, "description": "The model is not defined in the configuration."},
}
LONGEST_QUOTE = 120
"""Characters of an unknown name in an error."""
REFUSED = NotImplementedHere.status
NOT_BY_API = "hotseat does not change models over the network."
T = TypeVar("T")


class OllamaVersion(Schema):
    version: str


class OllamaDetails(Schema):
    """Fields that hotseat does not know are empty."""

    parent_model: Annotated[str, Field(description="Always empty.")] = ""
    format: str = ""
    family: str = ""
    families: list[str] | None = None
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaEntry(Schema):
    name: Annotated[str, Field(description="With a tag, `latest` if the configured name has none.")]
    model: Annotated[str, Field(description="The same again.")]
    size: Annotated[int, Field(description="Bytes of its files; 0: unknown.")]
    digest: Annotated[str, Field(description="Changes with the files of the model; no hash of their contents.")]
    details: OllamaDetails


class OllamaModel(OllamaEntry):
    modified_at: str


class OllamaModelList(Schema):
    models: list[OllamaModel]


class OllamaRunningModel(OllamaEntry):
    size: Annotated[int, Field(description="Bytes of memory; of its files, if that is not known.")]
    size_vram: Annotated[int, Field(description="The part on GPUs; 0 without `devices` in the configuration.")]
    expires_at: Annotated[str, Field(description="When it is unloaded if no request comes; in a century: never.")]
    context_length: Annotated[int, Field(description="Tokens of one request; 0: unknown.")]


class OllamaRunning(Schema):
    models: list[OllamaRunningModel]


class OllamaShown(Schema):
    modelfile: str
    parameters: Annotated[str, Field(description="`num_ctx` and the tokens of one request, if known.")]
    template: Annotated[str, Field(description="Always empty: the model server has its own template.")] = ""
    details: OllamaDetails
    model_info: Annotated[dict[str, Any], Field(description="The keys of its GGUF file.")]
    capabilities: list[str]
    modified_at: str


class ShowRequest(msgspec.Struct):
    model: str = ""
    name: str = ""
    """What older clients call it."""


class LoadRequest(msgspec.Struct):
    """As the relay writes it: clients' own requests have more members, and need not name a model."""

    model: str
    client: str = ""
    keep_alive: Any = None
    """None: the model's ttl counts."""


def describes_body() -> dict[str, Any]:
    """For the OpenAPI document, since FastAPI does not parse these bodies."""
    schema = {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.get("/api", include_in_schema=False)
async def is_running() -> PlainTextResponse:
    """What the bare address of the listener for Ollama's clients says; they check for these words."""
    return PlainTextResponse("Ollama is running")


@router.get("/api/version", summary="The version of Ollama whose API hotseat speaks")
async def version() -> OllamaVersion:
    return OllamaVersion(version=VERSION)


@router.get("/api/tags", summary="The configured models", response_model=OllamaModelList)
async def tags(deps: Deps, caller: Caller) -> Listing:
    """A key that is restricted to some models lists only those."""
    shown = [(name, named) for name, named in listed(deps) if caller is None or caller.may_use(named.name)]
    facts = await facts_of(deps, [named for _, named in shown])
    catalog = deps.dispatcher.catalog
    specs = ((name, local_model(named, catalog)) for name, named in shown)
    models = (tag(deps, name, facts.get(spec.name) if spec else None) for name, spec in specs)
    return Listing(page(OllamaModelList(models=[]), models=rows(models)))


@router.get("/api/ps", summary="The running models", response_model=OllamaRunning)
async def ps(deps: Deps, caller: Caller) -> Listing:
    view, catalog = deps.dispatcher.views.current(), deps.dispatcher.catalog
    running = [seen for seen in view.running() if caller is None or caller.may_use(seen.name)]
    specs = [spec for seen in running if (spec := catalog.models.get(seen.name)) is not None]
    facts = await deps.facts(specs)
    models = (loaded(deps, view, seen, facts.get(seen.name)) for seen in running)
    return Listing(page(OllamaRunning(models=[]), models=rows(models)))


@router.post("/api/show", summary="What is known about a model", responses=SHOW_ERRORS, openapi_extra=describes_body())
async def show(request: Request, deps: Deps, caller: Caller) -> OllamaShown:
    asked = await body_of(request, ShowRequest)
    name, catalog = asked.model or asked.name, deps.dispatcher.catalog
    named = known_model(name, catalog)
    if caller is not None:
        caller.check_may_use(named.name)
    spec = local_model(named, catalog)
    facts = (await facts_of(deps, [named])).get(spec.name) if spec else None
    context = context_of(deps, spec)
    return OllamaShown(
        modelfile=f"FROM {listed_name(name)}\n",
        parameters=f"num_ctx                        {context}" if context else "",
        details=details(facts),
        model_info=model_info(facts),
        capabilities=capabilities(spec, facts),
        modified_at=modified_at(deps, facts),
    )


@router.post("/api/chat", include_in_schema=False)
async def chat(request: Request, deps: Deps, caller: Caller) -> JSONResponse:
    answer = await loaded_or_unloaded(request, deps, caller)
    return JSONResponse({**answer, "message": {"role": "assistant", "content": ""}})


@router.post("/api/generate", include_in_schema=False)
async def generate(request: Request, deps: Deps, caller: Caller) -> JSONResponse:
    return JSONResponse({**await loaded_or_unloaded(request, deps, caller), "response": ""})


@router.post("/api/pull", summary="Refused: use `hotseat pull`", status_code=REFUSED)
async def pull() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} To download one, run `hotseat pull ORG/REPO` in a terminal.")


@router.delete("/api/delete", summary="Refused: use `hotseat rm`", status_code=REFUSED)
async def delete() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} To delete one, run `hotseat rm MODEL` in a terminal.")


@router.post("/api/create", summary="Refused: edit the configuration", status_code=REFUSED)
async def create() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} To define one, add it under `models` in the configuration and reload.")


@router.post("/api/copy", summary="Refused: edit the configuration", status_code=REFUSED)
async def copy() -> Error:
    raise NotImplementedHere(
        f"{NOT_BY_API} To give one another name, add it to its `aliases` in the configuration and reload."
    )


@router.post("/api/push", summary="Refused: hotseat publishes no models", status_code=REFUSED)
async def push() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} It does not publish them either; upload the file with the hub's own tools.")


@router.get("/api/blobs/{digest:path}", include_in_schema=False)  # the relay leads only HEAD here
@router.post("/api/blobs/{digest:path}", summary="Refused: copy files yourself", status_code=REFUSED)
async def blobs(digest: str) -> Error:
    raise NotImplementedHere(
        f"{NOT_BY_API} Copy the file to this machine and add it under `models`, or to `modelsDir`."
    )


async def body_of(request: Request, kind: type[T]) -> T:
    body = await request.body()
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ClientError(f"the request body must be JSON with a `model`: {problem}") from None


def known_model(name: str, catalog: Catalog) -> NamedModel:
    """What a client means; raises with the words that clients of Ollama look for."""
    found = named_model(name, catalog)
    if found is None:
        short = name[:LONGEST_QUOTE]
        hint = did_you_mean(short, catalog.names())
        raise UnknownModel(f"model '{short}' not found", f".{hint}" if hint else "")
    return found


def local_model(named: NamedModel, catalog: Catalog) -> ModelSpec | None:
    """The model itself, or the first target of a selector that runs here; None if it runs elsewhere."""
    if isinstance(named, Selector):
        return next((target for target in catalog.choices(named) if isinstance(target, ModelSpec)), None)
    return named if isinstance(named, ModelSpec) else None


async def facts_of(deps: ApiDeps, named: Sequence[NamedModel]) -> Mapping[ModelName, ModelFacts]:
    specs = [spec for each in named if (spec := local_model(each, deps.dispatcher.catalog)) is not None]
    return await deps.facts(specs)


def tag(deps: ApiDeps, name: str, facts: ModelFacts | None) -> OllamaModel:
    return OllamaModel(**entry(name, facts), modified_at=modified_at(deps, facts))


def modified_at(deps: ApiDeps, facts: ModelFacts | None) -> str:
    return rfc3339(facts.modified_at if facts else deps.started_at)


def loaded(deps: ApiDeps, view: View, seen: ModelView, facts: ModelFacts | None) -> OllamaRunningModel:
    known = entry(seen.name, facts)
    total, on_gpus = memory(seen)
    return OllamaRunningModel(
        **{**known, "size": total or known["size"]},
        size_vram=on_gpus,
        expires_at=rfc3339(time.time() + left_s(view, seen)),
        context_length=context_of(deps, deps.dispatcher.catalog.models.get(seen.name)),
    )


def memory(seen: ModelView) -> tuple[Bytes, Bytes]:
    """In total, and on GPUs; measured or as it counts."""
    held = seen.measured or (seen.footprint.memory if seen.footprint else {})
    return sum(held.values()), sum(size for place, size in held.items() if place.device != RAM)


def left_s(view: View, seen: ModelView) -> Seconds:
    """Until it is unloaded if its current requests end now and no other comes."""
    if seen.expires_at is not None:
        return max(0.0, seen.expires_at - view.now)
    # Ollama's clients show a century as "forever".
    return CENTURY_S if seen.ttl_s is None else seen.ttl_s


def context_of(deps: ApiDeps, spec: ModelSpec | None) -> int:
    return 0 if spec is None else deps.context(spec.name) or spec.capabilities.context


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


async def loaded_or_unloaded(request: Request, deps: ApiDeps, caller: Account | None) -> dict[str, Any]:
    """Needs no more rights than a request: it waits its turn, cuts nobody, and evicts no pinned model."""
    asked = await body_of(request, LoadRequest)
    spec = model_to_load(asked.model, deps, caller)
    seconds = None if asked.keep_alive is None else keep_alive_s(asked.keep_alive)
    is_unload = seconds == 0
    if spec is not None and not is_unload:
        client = ClientId(asked.client)
        await unless_gone(request.receive, deps.dispatcher.operator.load_for_client(spec.name, client))
    if spec is not None and asked.keep_alive is not None:
        deps.dispatcher.tell(KeepAliveChanged(spec.name, seconds))
    done_reason = "unload" if is_unload else "load"
    return {"model": asked.model, "created_at": rfc3339(time.time()), "done": True, "done_reason": done_reason}


def model_to_load(name: str, deps: ApiDeps, caller: Account | None) -> ModelSpec | None:
    """None if it runs elsewhere: its own host loads it. Raises if it is unknown or not for this key."""
    catalog = deps.dispatcher.catalog
    named = known_model(name, catalog)
    if caller is not None:
        caller.check_may_use(named.name)
    return local_model(named, catalog)
