"""Builds sleep levels from a model's `sleep` and fills in those of known servers."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hotseat.catalog.sleeping import Sleep, SleepLevel, Step, step_of
from hotseat.catalog.template import MODEL_ID, fill_hole, sealed, unsealed
from hotseat.config.sleep_schema import LevelForm, SleepForm
from hotseat.identifiers import HOST_MEMORY, LOCAL_HOST, Bytes, DeviceName, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.config.model_schema import ModelForm
    from hotseat.config.problems import Path, Problems
    from hotseat.config.schema_base import Words

ONLY_LEVEL = "only"


@dataclass(frozen=True, slots=True)
class Known:
    """A server whose sleep levels are built in."""

    levels: Mapping[str, LevelForm]
    usual: tuple[str, ...]
    """The levels used if the configuration names none."""
    check: str
    asked_for: tuple[str, ...]
    """What the command or the environment must contain for the server to sleep."""
    forgetting: str = ""
    """The level that drops the weights; others keep them in RAM."""


VLLM = {
    "1": {"suspend": "POST /sleep?level=1&mode=wait", "resume": "POST /wake_up"},
    "2": {
        "suspend": "POST /sleep?level=2&mode=wait",
        "resume": [
            "POST /wake_up?tags=weights",
            'POST /collective_rpc {"method": "reload_weights"}',
            "POST /wake_up?tags=kv_cache",
        ],
    },
}
# The server sleeps by itself when idle, so there is no suspend request; any request to the model wakes it.
LLAMA_SERVER = {"idle": {"resume": 'POST /tokenize {"content": ""}'}}


def known(levels: Mapping[str, Any], usual: str, check: str, *asked_for: str, forgetting: str) -> Known:
    forms = {name: LevelForm.model_validate(each) for name, each in levels.items()}
    return Known(forms, (usual,), check, asked_for, forgetting)


SERVERS: Mapping[str, Known] = {
    # Level 2 reloads the weights through a call that not every model and quantisation supports: never a default.
    "vllm": known(VLLM, "1", "/is_sleeping", "--enable-sleep-mode", "VLLM_SERVER_DEV_MODE", forgetting="2"),
    "llama-server": known(LLAMA_SERVER, "idle", "/props", "--sleep-idle-seconds", forgetting="idle"),
}
NOBODY = Known({}, (), "", ())


class SleepMaker:
    """Makes sleep levels and reports those that cannot work."""

    def __init__(self, budgets: Mapping[Place, Bytes], problems: Problems) -> None:
        self._budgets, self._problems = budgets, problems

    def sleep(self, name: str, model: ModelForm, path: Path) -> Sleep | None:
        if model.sleep is None:
            return None
        form = SleepForm(server=model.sleep) if isinstance(model.sleep, str) else model.sleep
        server = SERVERS[form.server] if form.server else NOBODY
        self._warn_of_insomnia(model, server, path)
        levels = tuple(self._level(name, each, form, server, path) for each in self._names(form, server, path))
        return Sleep(levels, form.ttl or None)

    def _names(self, form: SleepForm, server: Known, path: Path) -> list[str]:
        if form.levels and (form.suspend or form.resume or form.memory is not None):
            self._problems.error((*path, "levels"), "cannot be used together with suspend, resume or memory beside it")
        return [*form.levels] or [*server.usual] or [ONLY_LEVEL]

    def _level(self, name: str, level: str, form: SleepForm, server: Known, path: Path) -> SleepLevel:
        own, usual = form.levels.get(level, form), server.levels.get(level, LevelForm())
        here: Path = (*path, "levels", level) if level in form.levels else path
        if not own.resume and not usual.resume:
            hint = f"Known levels: {', '.join(server.levels)}" if server.levels else "Define how to wake it"
            self._problems.error((*here, "resume"), "is missing: nothing would wake the server", hint)
        return SleepLevel(
            level,
            self._steps(name, own.suspend or usual.suspend, (*here, "suspend")),
            self._steps(name, own.resume or usual.resume, (*here, "resume")),
            check=unsealed(form.check, quote) or server.check or None,
            memory=self._memory(own, (*here, "memory")),
            keeps_weights=level != server.forgetting,
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

    def _memory(self, own: LevelForm, path: Path) -> Mapping[Place, Bytes] | None:
        """A single size means RAM, where sleeping servers keep their memory."""
        if own.memory is None:
            return None
        if not self._budgets:
            self._problems.warn(path, "has no effect without devices")
            return None
        sizes = own.memory if isinstance(own.memory, dict) else {HOST_MEMORY.device: own.memory}
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
