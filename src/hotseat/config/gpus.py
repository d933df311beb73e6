"""Makes a model's GpuChoice from its `gpus`, and reports what would contradict it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import GpuChoice
from hotseat.catalog.template import GPUS, holes
from hotseat.config.crosscheck import SMALLER, never_fits
from hotseat.config.problems import nearest
from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.report import CannotEstimate
from hotseat.estimates.vllm import devices_of
from hotseat.identifiers import LOCAL_HOST, RAM, Bytes, DeviceName, Place
from hotseat.model_servers.remote_launchers import ELSEWHERE
from hotseat.model_servers.visible_gpus import CUDA, ROCR, VISIBLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.config.model_schema import ModelForm
    from hotseat.config.problems import Path, Problems
    from hotseat.estimates.command import Server

OWN_CHOICE = ("-dev", "--device", "-mg", "--main-gpu", "-ts", "--tensor-split")
OWN_CHOICE_IN_ENV = ("LLAMA_ARG_DEVICE", "LLAMA_ARG_MAIN_GPU", "LLAMA_ARG_TENSOR_SPLIT")
"""Of llama-server: they number the cards that it sees."""

PASSING_ALL = ("-E", "--env-host")
"""Options of sudo and podman that pass on all variables."""

NEEDS_GPUS = "Set gpus to auto, a number or a list of devices"
DECLARED = "memory already says which devices the model uses"
DECLARED_HINT = "Remove gpus, name the same devices, or declare memory as one size"


class GpuChoiceMaker:
    def __init__(self, budgets: Mapping[Place, Bytes], problems: Problems) -> None:
        self._budgets = budgets
        self._cards = [place for place in budgets if place.device != RAM]
        self._problems = problems

    def choice(self, form: ModelForm, recipe: LaunchRecipe, path: Path) -> GpuChoice | None:
        here: Path = (*path, "gpus")
        if form.gpus is None:
            self._refuse_names(recipe, path, "uses ${GPUS}, but gpus is not set", NEEDS_GPUS)
            return None
        if not self._cards:
            missing = "a GPU under devices" if self._budgets else "devices"
            self._problems.warn(here, f"has no effect without {missing}")
            self._refuse_names(recipe, path, f"uses ${{GPUS}}, which is unknown without {missing}", "Set devices: auto")
            return None
        choice = self._of_list(form.gpus, here) if isinstance(form.gpus, tuple) else self._of_number(form.gpus, here)
        self._check_memory(form, choice, here)
        self._check_variables(recipe, path)
        self._warn_of_container(recipe.argv, (*path, "cmd"))
        return self._for_server(choice, recipe, path)

    def _refuse_names(self, recipe: LaunchRecipe, path: Path, said: str, hint: str) -> None:
        texts = {"cmd": recipe.argv, "cmdStop": recipe.stop or (), "env": [value for _, value in recipe.env]}
        for key, words in texts.items():
            if any(GPUS in holes(word) for word in words):
                self._problems.error((*path, key), said, hint)

    # What the key says

    def _of_number(self, wanted: str | int, path: Path) -> GpuChoice:
        """With MIG slices `auto` is one: CUDA uses one of them per process."""
        if isinstance(wanted, str):
            return GpuChoice(1 if any(map(is_slice, self._cards)) else None, tuple(self._cards))
        if wanted > len(self._cards):
            known = ", ".join(card.device for card in self._cards)
            self._problems.error(path, f"asks for {wanted} GPUs, but devices has {len(self._cards)}: {known}")
        elif wanted > sum(not is_slice(card) for card in self._cards):
            self._refuse_slices(path)
        return GpuChoice(wanted, tuple(self._cards))

    def _of_list(self, named: tuple[str, ...], path: Path) -> GpuChoice:
        for position, name in enumerate(named):
            self._check_name(name, named[:position], (*path, position))
        among = tuple(card for card in self._cards if card.device in named)
        if len(among) > 1 and any(map(is_slice, among)):
            self._refuse_slices(path)
        return GpuChoice(len(among), among)

    def _check_name(self, name: str, before: tuple[str, ...], path: Path) -> None:
        if name in before:
            self._problems.error(path, f'"{name}" is named twice')
        elif name == RAM:
            self._problems.error(path, "ram is not a GPU", f"GPUs: {', '.join(card.device for card in self._cards)}")
        elif Place(LOCAL_HOST, DeviceName(name)) not in self._cards:
            known = [card.device for card in self._cards]
            self._problems.error(path, f'no device is called "{name}"', nearest(name, known))

    def _refuse_slices(self, path: Path) -> None:
        self._problems.error(path, "CUDA uses one MIG instance per process", "Write gpus: 1, or name one device")

    # What other keys say

    def _check_memory(self, form: ModelForm, choice: GpuChoice, path: Path) -> None:
        """A mapping must name exactly the same cards; one size must fit the largest cards that it may get."""
        if isinstance(form.memory, int):
            self._fits(form.memory, choice, (*path[:-1], "memory"))
        if not isinstance(form.memory, dict):
            return
        declared = {device for device in form.memory if device != RAM}
        if not isinstance(form.gpus, tuple) or declared != {card.device for card in choice.among}:
            self._problems.error(path, DECLARED, DECLARED_HINT)

    def _fits(self, size: Bytes, choice: GpuChoice, path: Path) -> None:
        largest = sorted(choice.among, key=lambda card: -self._budgets[card])[: choice.count]
        most = sum(self._budgets[card] for card in largest)
        if choice.among and size > most:
            devices = " and ".join(card.device for card in choice.among if card in largest)
            self._problems.warn(path, never_fits(size, devices, most), SMALLER)

    def _check_variables(self, recipe: LaunchRecipe, path: Path) -> None:
        server = server_of(recipe)
        said = {**dict(recipe.env), **(server.env if server else {})}
        for name in VISIBLE:
            if name in said and GPUS not in holes(said[name]):
                key = "env" if name in dict(recipe.env) else "cmd"
                self._problems.error(
                    (*path, key),
                    f"sets {name}, which wins over gpus",
                    "Remove it, or remove gpus and declare memory per device",
                )

    def _warn_of_container(self, argv: tuple[str, ...], path: Path) -> None:
        """Our variables do not enter a container by themselves."""
        program = argv[0].rpartition("/")[2] if argv else ""
        if program not in ELSEWHERE or any(word in PASSING_ALL or tells_gpus(word) for word in argv):
            return
        option = "--gpus '\"device=${GPUS}\"'" if program == "docker" else "${GPUS}"
        said = f"{program} does not tell the server which GPUs were chosen"
        self._problems.warn(path, said, f"Add {option}, or pass on {CUDA} or {ROCR}")

    def _for_server(self, choice: GpuChoice, recipe: LaunchRecipe, path: Path) -> GpuChoice:
        server = server_of(recipe)
        if server is None:
            return choice
        if server.engine is Engine.LLAMA:
            for option in own_choices(server):
                said = f"{option} numbers the GPUs that the server sees, and gpus changes which these are"
                self._problems.warn((*path, "cmd"), said, "Remove it, or remove gpus and declare memory per device")
            return choice
        return self._for_vllm(choice, server, path)

    def _for_vllm(self, choice: GpuChoice, server: Server, path: Path) -> GpuChoice:
        """Its options say how many cards it uses."""
        try:
            uses = devices_of(server)
        except CannotEstimate:
            return choice
        if choice.count is None:
            return self._of_number(uses, (*path, "gpus"))
        if choice.count != uses:
            said = f"vLLM uses {uses} of them (--tensor-parallel-size × --pipeline-parallel-size)"
            self._problems.warn((*path, "gpus"), said, "Make both the same")
        return choice


def server_of(recipe: LaunchRecipe) -> Server | None:
    try:
        return server_in(recipe.argv, dict(recipe.env))
    except CannotEstimate:
        return None


def tells_gpus(word: str) -> bool:
    return GPUS in holes(word) or any(name in word for name in VISIBLE)


def own_choices(server: Server) -> Iterator[str]:
    """Each option of llama-server that chooses among cards."""
    given = {option.partition("=")[0].replace("_", "-") for option in server.options if option.startswith("-")}
    yield from (option for option in OWN_CHOICE if option in given)
    yield from (name for name in OWN_CHOICE_IN_ENV if name in server.env)


def is_slice(card: Place) -> bool:
    """Whether it is a MIG instance, such as gpu0.1."""
    return "." in card.device
