"""Decides which models keep their conversations: llama-servers that run here and save to hotseat's folder.

hotseat tells a server the folder in a variable, which a flag of its command overrides and which does not enter a
container.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hotseat.config.gpus import server_of
from hotseat.config.schema import ConversationsForm
from hotseat.estimates.command import Engine
from hotseat.estimates.llama_flags import TRUE
from hotseat.model_servers.remote_launchers import ELSEWHERE
from hotseat.settings import Conversations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.config.schema import ConversationsOrSwitch
    from hotseat.estimates.command import Server

OWN_PATH, OWN_PATH_IN_ENV = "--slot-save-path", "LLAMA_ARG_SLOT_SAVE_PATH"
PREVENTING = (
    "--embedding", "--embeddings", "--rerank", "--reranking",  # no conversations
    "--no-slots",  # the server does not say which it has
    "--no-cache-prompt",  # and does not use again what it has
    "--lora", "--lora-scaled", "--lora-init-without-apply",  # requests may change what is computed
    "-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo",  # the server may fetch another file
    "-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf",
)  # fmt: skip
PREVENTING_IN_ENV = ("LLAMA_ARG_EMBEDDINGS", "LLAMA_ARG_RERANKING")
PREVENTING_IF_SET = ("LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_DOCKER_REPO", "LLAMA_ARG_HFD_REPO")
CONFINING = frozenset((
    "bwrap", "firejail", "apptainer", "singularity", "chroot", "unshare", "nsenter",  # the folder may not be there
    "su", "runuser", "setpriv", "gosu", "su-exec", "pkexec",  # another user may not use it
))  # fmt: skip


def conversations_of(form: ConversationsOrSwitch) -> Conversations:
    if isinstance(form, str):
        form = ConversationsForm() if form == "on" else ConversationsForm(disk=0)
    return Conversations(form.disk)


def with_conversations(catalog: Catalog, conversations: Conversations, environ: Mapping[str, str]) -> Catalog:
    """The catalog with the models marked whose conversations are kept; model servers inherit `environ`."""
    if not conversations.disk:
        return catalog
    models = {
        name: replace(spec, keeps_conversations=not obstacle(spec.recipe, environ))
        for name, spec in catalog.models.items()
    }
    return replace(catalog, models=MappingProxyType(models))


def obstacle(recipe: LaunchRecipe, environ: Mapping[str, str]) -> str:
    """Why the conversations of this server cannot be kept; empty: they can."""
    server = server_of(recipe)
    if server is None or server.engine is not Engine.LLAMA:
        return "no llama-server"
    if launcher := _launcher_elsewhere(recipe.argv):
        return f"started by {launcher}"
    if own := _own_path(server, environ):
        return f"{own} is set"
    return next(_preventing(server, environ), "")


def _launcher_elsewhere(argv: tuple[str, ...]) -> str:
    """The program that starts the server in a container, on another machine or as another user; maybe in a shell."""
    programs = (word.rpartition("/")[2] for words in argv for word in words.split())
    return next((program for program in programs if program in ELSEWHERE | CONFINING), "")


def _own_path(server: Server, environ: Mapping[str, str]) -> str:
    if OWN_PATH in _flags(server):
        return OWN_PATH
    return OWN_PATH_IN_ENV if OWN_PATH_IN_ENV in {**environ, **server.env} else ""


def _preventing(server: Server, environ: Mapping[str, str]) -> Iterator[str]:
    given, variables = _flags(server), {**environ, **server.env}
    yield from (flag for flag in PREVENTING if flag in given)
    yield from (name for name in PREVENTING_IN_ENV if variables.get(name, "").lower() in TRUE)
    yield from (name for name in PREVENTING_IF_SET if variables.get(name))


def _flags(server: Server) -> set[str]:
    """In llama-server's own spelling."""
    return {word.partition("=")[0].replace("_", "-") for word in server.options if word.startswith("-")}
