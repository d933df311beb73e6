"""Builds sleep levels from a model's `sleep` and fills in those of known servers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.catalog.sleeping import Sleep, SleepLevel, Step, step_of
from hotseat.catalog.template import MODEL_ID, fill_hole, sealed
from hotseat.config.model_schema import SleepForm
from hotseat.identifiers import HOST_MEMORY, LOCAL_HOST, Bytes, DeviceName, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.config.model_schema import ModelForm
    from hotseat.config.problems import Path, Problems
    from hotseat.config.schema_base import Words


class KnownLevel(Struct, frozen=True):
    suspend: Words = ""
    """Empty: the server falls asleep by itself when idle."""
    resume: Words = ""
    keeps_weights: bool = True


class Known(Struct, frozen=True):
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

SERVERS: Mapping[str, Known] = {
    "vllm": Known(VLLM, "1", "/is_sleeping", ("--enable-sleep-mode", "VLLM_SERVER_DEV_MODE")),
    "llama-server": Known(LLAMA_SERVER, "idle", "/props", ("--sleep-idle-seconds",)),
}
ANY_SERVER = Known({"only": KnownLevel()}, "only", None, ())


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

    def _names(self, form: SleepForm, server: Known, path: Path) -> list[str]:
        names = [str(level) for level in dict.fromkeys(form.levels)]
        if names and form.server != "vllm":
            self._problems.error((*path, "levels"), "only vllm has levels", "Remove levels")
            return [server.usual]
        if len(names) > 1 and (form.suspend or form.resume or form.memory is not None):
            self._problems.error((*path, "levels"), "several levels cannot have the same suspend, resume or memory")
        return names or [server.usual]

    def _level(self, name: str, level: str, form: SleepForm, server: Known, path: Path) -> SleepLevel:
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

    def _warn_of_insomnia(self, model: ModelForm, server: Known, path: Path) -> None:
        said = f"{model.cmd} {model.env}"
        for word in server.asked_for:
            if word not in said:
                self._problems.warn(
                    path, f"the server does not support sleeping without {word}", "Add it to cmd or env"
                )
