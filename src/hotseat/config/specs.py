"""Makes a ModelSpec from one model's keys, its levels of sleep included; those of known servers are built in.

Reports commands that would not do what their author expects.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from hotseat.catalog.sleeping import Sleep, SleepLevel, Step, step_of
from hotseat.catalog.spec import (
    NOTHING,
    UNCHANGED,
    BodyChanges,
    Capabilities,
    LaunchRecipe,
    LoadingState,
    ModelSpec,
    Replicas,
    Timeouts,
)
from hotseat.catalog.template import MODEL_ID, PORT, address_of, fill_hole, holes, sealed, split_command
from hotseat.config.gpus import GpuChoiceMaker
from hotseat.config.model_schema import SleepForm
from hotseat.estimates.command import Engine, container_run, server_in
from hotseat.estimates.report import CannotEstimate
from hotseat.identifiers import ANY_GPU, HOST_MEMORY, LOCAL_HOST, Bytes, DeviceName, ModelName, Place, Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import GpuChoice
    from hotseat.config.fleet_schema import ReplicasForm
    from hotseat.config.model_schema import CapabilitiesForm, Filters, ModelForm, TimeoutsForm
    from hotseat.config.problems import Path, Problems
    from hotseat.config.schema import Config
    from hotseat.config.schema_base import Words
    from hotseat.estimates.command import ContainerRun

COMFYUI = "comfyui_auto"
"""The name under which llama-swap serves ComfyUI at /comfyui/: a web page that opens dozens of connections."""
COMFYUI_SLOTS = 50

SHELLS = ("sh", "bash", "dash", "zsh", "ash", "fish", "ssh")
"""These interpret operators and `~` themselves; ssh has a shell do it on the other host."""
_OPERATOR = re.compile(r"&&|\|\||\||;|&|#|\d*(>>?|<)(&\d|&-)?.*")
_QUOTES = 'Check the quotes; a # after a space begins a comment, unless the value stands below "cmd: |"'
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")

ALIAS = "LLAMA_ARG_ALIAS"
DETACHED = re.compile(r"--detach|-[itPq]*d[ditPq]*")
Env: TypeAlias = tuple[tuple[str, str], ...]


class Defaults(Struct, frozen=True):
    """File-wide values for models that set none."""

    health_check_timeout_s: Seconds | None
    unload_timeout_s: Seconds
    ttl_s: Seconds
    loading_state: str

    @staticmethod
    def of(config: Config) -> Defaults:
        return Defaults(
            config.health_check_timeout or None,
            config.unload_timeout or 10.0,
            config.global_ttl,
            config.send_loading_state,
        )


class SpecMaker:
    """Makes specs and reports errors that involve several keys."""

    def __init__(
        self, config: Config, budgets: Mapping[Place, Bytes], urgencies: Mapping[str, float], problems: Problems
    ) -> None:
        self._defaults = Defaults.of(config)
        self._urgencies = urgencies
        self._budgets = budgets
        self._ports = preferred_ports(config)
        self._problems = problems
        self._sleeps = SleepMaker(budgets, problems)
        self._gpu_choices = GpuChoiceMaker(budgets, problems)
        if self._ports and max(self._ports.values()) > 65535:
            problems.error(("startPort",), f"{len(self._ports)} models need more ports than there are below 65536")

    def spec(self, name: str, form: ModelForm) -> ModelSpec:
        path: Path = ("models", name)
        ttl = self._defaults.ttl_s if form.ttl < 0 else form.ttl
        recipe = self._recipe(name, form, path)
        gpus = self._gpu_choices.choice(form, recipe, path)
        return ModelSpec(
            name=ModelName(name),
            recipe=recipe,
            aliases=_aliases(name, form),
            title=form.name,
            description=form.description,
            unlisted=form.unlisted,
            health_check_timeout_s=form.health_check_timeout or self._defaults.health_check_timeout_s,
            unload_timeout_s=form.unload_timeout or self._defaults.unload_timeout_s,
            drain_timeout_s=form.drain_timeout,
            max_request_s=form.max_request_duration or None,
            ttl_s=ttl or None,
            concurrency_limit=_limit(name, form),
            urgency=form.urgency if "urgency" in form.model_fields_set else self._urgencies.get(name, 1.0),
            pinned=form.pinned,
            sleep=self._sleeps.sleep(name, form, (*path, "sleep")),
            gpus=gpus,
            memory=self._memory(form, gpus, path),
            changes=self._changes(form, path),
            loading_state=LoadingState(form.send_loading_state or self._defaults.loading_state),
            changes_by_name=_changes_by_name(form),
            timeouts=timeouts(form.timeouts),
            ignore_websockets=form.compat.ignore_websockets or name == COMFYUI,
            metadata=MappingProxyType(form.metadata),
            capabilities=_capabilities(form.capabilities),
            replicas=self._replicas(form.replicas, (*path, "replicas")),
            host_labels=MappingProxyType(form.hosts),
        )

    # The process

    def _recipe(self, name: str, form: ModelForm, path: Path) -> LaunchRecipe:
        argv = self._words(name, form.cmd, (*path, "cmd"))
        if argv:
            self._check_port(form, path)
        self._check_proxy(form.proxy, (*path, "proxy"))
        stop = self._words(name, form.cmd_stop, (*path, "cmdStop")) or None if form.cmd_stop.strip() else None
        warn_of_container(argv, stop, path, self._problems)
        return LaunchRecipe(
            argv=argv,
            proxy=form.proxy,
            stop=stop,
            env=with_alias(name, argv, _environment(form)),
            check_endpoint=_endpoint(form.check_endpoint),
            preferred_port=self._ports.get(name),
        )

    def _words(self, name: str, command: str, path: Path) -> tuple[str, ...]:
        try:
            words = split_command(command)
        except ValueError as error:
            self._problems.error(path, f"cannot be split into words: {str(error).lower()}", _QUOTES)
            return ()
        if not words:
            self._problems.error(path, "contains no command")
        self._warn_of_shell(words, path)
        return tuple(fill_hole(word, MODEL_ID, name) for word in words)

    def _warn_of_shell(self, words: tuple[str, ...], path: Path) -> None:
        if not words or words[0].rpartition("/")[2] in SHELLS:
            return None
        if _ASSIGNMENT.fullmatch(words[0]):
            name = words[0].partition("=")[0]  # the value may be a secret
            self._problems.warn(path, f'"{name}=…" would be run as the program: no shell is used', "Use env instead")
        for word in words:
            if hint := _without_shell(word):
                return self._problems.warn(path, f'"{word}" is passed on unchanged: no shell is used', hint)
        return None

    def _check_port(self, form: ModelForm, path: Path) -> None:
        if PORT in holes(form.cmd):
            return
        if PORT in holes(form.proxy):
            if "proxy" in form.model_fields_set:
                self._problems.error((*path, "proxy"), "proxy uses ${PORT}, but cmd does not", "Use ${PORT} in cmd")
            else:
                hint = "Use ${PORT} in cmd, or set proxy to where the server listens"
                self._problems.error((*path, "cmd"), "does not use ${PORT}, and proxy is not set", hint)
        for key, text in (("cmdStop", form.cmd_stop), ("checkEndpoint", form.check_endpoint), ("env", str(form.env))):
            if PORT in holes(text):
                self._problems.error((*path, key), f"{key} uses ${{PORT}}, but cmd does not")

    def _check_proxy(self, proxy: str, path: Path) -> None:
        try:
            address_of(fill_hole(proxy, PORT, 1))
        except ValueError as error:
            self._problems.error(path, str(error))

    # Its memory and its requests

    def _memory(self, form: ModelForm, gpus: GpuChoice | None, path: Path) -> Mapping[Place, Bytes] | None:
        if form.memory is None:
            return None
        if not self._budgets:
            self._problems.warn((*path, "memory"), "has no effect without devices")
            return None
        if isinstance(form.memory, int):
            return MappingProxyType({ANY_GPU if gpus else next(iter(self._budgets)): form.memory})
        return MappingProxyType({Place(LOCAL_HOST, DeviceName(device)): size for device, size in form.memory.items()})

    def _replicas(self, form: ReplicasForm, path: Path) -> Replicas:
        if form.max is not None and form.max < form.min:
            self._problems.error((*path, "max"), f"must be at least min, which is {form.min}")
        return Replicas(form.min, form.max or max(1, form.min))

    def _changes(self, form: ModelForm, path: Path) -> BodyChanges:
        if form.filters.old_strip_params:
            self._problems.note((*path, "filters", "strip_params"), "deprecated spelling", "Use stripParams")
        return body_changes(form.filters, form.use_model_name or None) or UNCHANGED


def _without_shell(word: str) -> str:
    """What to write instead of a word that only a shell interprets; empty for other words."""
    if word.startswith("~/"):
        return "Write the full path, or ${env.HOME} instead of ~"
    return "Use sh -c '…' if you need one" if _OPERATOR.fullmatch(word) or "$(" in word or "`" in word else ""


def _aliases(name: str, form: ModelForm) -> tuple[str, ...]:
    """The aliases, including names that set request parameters."""
    names = dict.fromkeys((*form.aliases, *form.filters.set_params_by_id))
    return tuple(alias for alias in names if alias != name)


def _limit(name: str, form: ModelForm) -> int | None:
    if name == COMFYUI and form.concurrency_limit:
        return max(form.concurrency_limit, COMFYUI_SLOTS)
    return form.concurrency_limit or None


def body_changes(filters: Filters, model_name: str | None) -> BodyChanges:
    return BodyChanges(model_name, stripped(filters)).adding(filters.set_params)


def _changes_by_name(form: ModelForm) -> Mapping[str, BodyChanges]:
    if not form.filters.set_params_by_id:
        return NOTHING
    usual = body_changes(form.filters, form.use_model_name or None)
    return MappingProxyType({name: usual.adding(members) for name, members in form.filters.set_params_by_id.items()})


def timeouts(form: TimeoutsForm) -> Timeouts:
    """0 means no limit."""
    return Timeouts(
        connect_s=form.connect or None,
        tls_handshake_s=form.tls_handshake or None,
        keepalive_s=form.keepalive or None,
        response_header_s=form.response_header or None,
        idle_s=form.idle_conn or None,
    )


def _capabilities(form: CapabilitiesForm) -> Capabilities:
    return Capabilities(form.in_, form.out, form.tools, form.reranker, form.context)


def preferred_ports(config: Config) -> dict[str, int]:
    """With startPort: a port for each model whose command uses one, in the order of their names."""
    if config.start_port is None:
        return {}
    asking = sorted(name for name, form in config.models.items() if PORT in holes(form.cmd))
    return {name: config.start_port + n for n, name in enumerate(asking)}


def stripped(filters: Filters) -> tuple[str, ...]:
    words = filters.strip_params or filters.old_strip_params
    listed = words.split(",") if isinstance(words, str) else words
    names = dict.fromkeys(name.strip() for name in listed)
    return tuple(name for name in names if name and name != "model")


def _environment(form: ModelForm) -> tuple[tuple[str, str], ...]:
    if isinstance(form.env, dict):
        return tuple(form.env.items())
    return tuple((name, value) for name, _, value in (entry.partition("=") for entry in form.env))


def _endpoint(text: str) -> str | None:
    if text == "none":
        return None
    return text if text.startswith("/") else f"/{text}"


def with_alias(name: str, argv: tuple[str, ...], env: Env) -> Env:
    """The environment of a model's server; without the alias, responses would name the path of the model's file."""
    try:
        server = server_in(argv, dict(env))
    except CannotEstimate:
        return env
    named = ALIAS in server.env or any(option.partition("=")[0] in ("-a", "--alias") for option in server.options)
    return env if server.engine is not Engine.LLAMA or named else (*env, (ALIAS, name))


def warn_of_container(argv: tuple[str, ...], stop: tuple[str, ...] | None, path: Path, problems: Problems) -> None:
    """`argv` and `stop` are a model's `cmd` and `cmdStop`."""
    if (run := container_run(argv)) is None:
        return None
    if is_detached(run):
        said = "the command ends at once, and hotseat takes the server for ended"
        return problems.warn((*path, "cmd"), f"with --detach {said}", "Remove -d and --detach")
    if stop is None:
        said = "a container that does not end on SIGTERM outlives its model: only the client can be killed"
        return problems.warn((*path, "cmd"), said, stop_hint(argv[0].rpartition("/")[2], run))
    if run.values("--name") and not run.values("--rm", "--replace") and "rm" not in " ".join(stop).split():
        said = "the container stays after its end, so the next start finds its name taken"
        return problems.warn((*path, "cmd"), said, "Add --rm")
    return None


def is_detached(run: ContainerRun) -> bool:
    return any(DETACHED.fullmatch(name) and value != "false" for name, value in run.options)


def stop_hint(engine: str, run: ContainerRun) -> str:
    if name := run.values("--name")[-1:]:
        return f"Add cmdStop: {engine} stop {name[0]}"
    return f"Add --name ${{MODEL_ID}} to cmd, and cmdStop: {engine} stop ${{MODEL_ID}}"


class KnownLevel(Struct, frozen=True):
    suspend: Words = ""
    """Empty: the server falls asleep by itself when idle."""
    resume: Words = ""
    keeps_weights: bool = True


class KnownServer(Struct, frozen=True):
    """A server whose sleep levels are built in."""

    levels: Mapping[str, KnownLevel]
    usual: str
    """The level used if the configuration names none."""
    check: str | None
    asked_for: tuple[str, ...]
    """What the command or the environment must contain for the server to sleep."""


VLLM = {
    "1": KnownLevel("POST /sleep?level=1&mode=wait", "POST /wake_up"),
    # It reloads the weights through a call that not every model and quantisation supports: never a default.
    "2": KnownLevel(
        "POST /sleep?level=2&mode=wait",
        (
            "POST /wake_up?tags=weights",
            'POST /collective_rpc {"method": "reload_weights"}',
            "POST /wake_up?tags=kv_cache",
        ),
        keeps_weights=False,
    ),
}
# Any request to the model wakes it.
LLAMA_SERVER = {"idle": KnownLevel(resume='POST /tokenize {"content": ""}', keeps_weights=False)}

SERVERS: Mapping[str, KnownServer] = {
    "vllm": KnownServer(VLLM, "1", "/is_sleeping", ("--enable-sleep-mode", "VLLM_SERVER_DEV_MODE")),
    "llama-server": KnownServer(LLAMA_SERVER, "idle", "/props", ("--sleep-idle-seconds",)),
}
ANY_SERVER = KnownServer({"only": KnownLevel()}, "only", None, ())


class SleepMaker:
    """Makes sleep levels and reports those that cannot work."""

    def __init__(self, budgets: Mapping[Place, Bytes], problems: Problems) -> None:
        self._budgets, self._problems = budgets, problems

    def sleep(self, name: str, model: ModelForm, path: Path) -> Sleep | None:
        if model.sleep is None:
            return None
        form = SleepForm(server=model.sleep) if isinstance(model.sleep, str) else model.sleep
        server = SERVERS[form.server] if form.server else ANY_SERVER
        self._warn_of_insomnia(model, server, path)
        levels = tuple(self._level(name, each, form, server, path) for each in self._names(form, server, path))
        return Sleep(levels, form.ttl or None)

    def _names(self, form: SleepForm, server: KnownServer, path: Path) -> list[str]:
        names = [str(level) for level in dict.fromkeys(form.levels)]
        if names and form.server != "vllm":
            self._problems.error((*path, "levels"), "only vllm has levels", "Remove levels")
            return [server.usual]
        if len(names) > 1 and (form.suspend or form.resume or form.memory is not None):
            self._problems.error((*path, "levels"), "several levels cannot have the same suspend, resume or memory")
        return names or [server.usual]

    def _level(self, name: str, level: str, form: SleepForm, server: KnownServer, path: Path) -> SleepLevel:
        usual = server.levels[level]
        if not form.resume and not usual.resume:
            hint = "Define how to wake it, or name a supported server"
            self._problems.error((*path, "resume"), "is missing: nothing would wake the server", hint)
        return SleepLevel(
            level,
            self._steps(name, form.suspend or usual.suspend, (*path, "suspend")),
            self._steps(name, form.resume or usual.resume, (*path, "resume")),
            check=server.check,
            memory=self._memory(form, (*path, "memory")),
            keeps_weights=usual.keeps_weights,
            timeout_s=form.timeout,
        )

    def _steps(self, name: str, words: Words, path: Path) -> tuple[Step, ...]:
        steps = []
        for text in [words] if isinstance(words, str) else words:
            try:
                steps += [step_of(fill_hole(text, MODEL_ID, sealed(name)))] if text.strip() else []
            except ValueError as error:
                self._problems.error(path, str(error), "Use a request such as POST /sleep, or a command")
        return tuple(steps)

    def _memory(self, form: SleepForm, path: Path) -> Mapping[Place, Bytes] | None:
        """A single size means RAM, where sleeping servers keep their memory."""
        if form.memory is None:
            return None
        if not self._budgets:
            self._problems.warn(path, "has no effect without devices")
            return None
        sizes = form.memory if isinstance(form.memory, dict) else {HOST_MEMORY.device: form.memory}
        places = {Place(LOCAL_HOST, DeviceName(device)): size for device, size in sizes.items()}
        for place in places:
            if place not in self._budgets:
                hint = f"Devices: {', '.join(each.device for each in self._budgets)}"
                self._problems.error(path, f'no device is called "{place.device}"', hint)
        return MappingProxyType(places)

    def _warn_of_insomnia(self, model: ModelForm, server: KnownServer, path: Path) -> None:
        said = f"{model.cmd} {model.env}"
        for word in server.asked_for:
            if word not in said:
                self._problems.warn(
                    path, f"the server does not support sleeping without {word}", "Add it to cmd or env"
                )
