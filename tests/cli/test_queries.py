"""The commands that query a running server."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.support.command_line import completed
from tests.support.waiting import come_true

from hotseat.catalog.catalog import CatalogChange
from hotseat.catalog.named_models import Profile
from hotseat.cli.queries import is_failing, phase_of, sentences, waiting
from hotseat.config.reload import ReloadResult
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command_line import CommandLine, Typed


EMPTY: dict[str, Any] = {
    "model": "dud", "host": None, "queue": [], "last_start": None, "last_stop": None, "other_hosts": [],
    "overrides": None, "configured": None, "conversations": None,
}  # fmt: skip
"""The answer about a model that nobody has used."""


async def test_ps_shows_what_is_alive(command_line: CommandLine) -> None:
    """One row per model that has a process or waiting requests."""
    before = await command_line.type("ps")
    await command_line.type("load", "qwen")
    after = await command_line.type("ps")

    *seen, ttl_left, since = after.out.splitlines()[1].split()

    assert " ".join(before.out.split()) == "MODEL PHASE PID PORT IN FLIGHT WAITING MEMORY TTL LEFT SINCE"
    assert seen == ["qwen", "ready", "7001", "40001", "0", "0", "-"]
    assert re.fullmatch(r"5m00s|4m\d\ds", ttl_left)
    assert re.fullmatch(r"\d+s", since)


async def test_the_shell_completes_models(command_line: CommandLine) -> None:
    """Names and aliases of the running server that begin as typed; nothing if no server answers."""
    known = await asyncio.to_thread(completed, "hotseat load q", command_line.url)
    nobody = await asyncio.to_thread(completed, "hotseat stop q", "http://127.0.0.1:9")

    assert known.split() == ["qwen", "q"]
    assert nobody.split() == []


async def test_ps_as_json(command_line: CommandLine) -> None:
    """Programs get the same as JSON."""
    await command_line.type("load", "qwen")
    said = await command_line.type("ps", "--json")

    [model] = json.loads(said.out)
    assert (model["model"], model["phase"], model["pid"]) == ("qwen", "ready", 7001)


async def test_list_shows_every_model(command_line: CommandLine) -> None:
    """Models that do not run are listed too, with their aliases."""
    said = await command_line.type("list")

    assert said.out.splitlines() == [
        "MODEL      ALIASES  STATUS  DESCRIPTION",
        "qwen       q        cold    Good at code",
        "org/llama  -        cold    Llama",
        "dud        -        cold    -",
    ]


async def test_load_and_stop_name_the_model(command_line: CommandLine) -> None:
    """An alias and a slash are valid; the answer has the model's name."""
    said = [
        await command_line.type("load", "q"),
        await command_line.type("stop", "q"),
        await command_line.type("load", "org/llama"),
    ]

    assert [(each.code, each.out) for each in said] == [
        (0, "qwen is ready\n"),
        (0, "qwen has stopped\n"),
        (0, "org/llama is ready\n"),
    ]


async def test_a_failed_load_exits_1_with_its_cause(command_line: CommandLine) -> None:
    """The cause goes to standard error, in one sentence."""
    said = await command_line.type("load", "dud")

    assert (said.code, said.out, said.err) == (1, "", "hotseat: dud exited with code 1\n")


async def test_a_mistyped_model_shows_the_nearest(command_line: CommandLine) -> None:
    """The message suggests it."""
    said = await command_line.type("load", "qwne")

    assert said.code == 1
    assert 'Did you mean "qwen"?' in said.err


async def test_stop_all_stops_all(command_line: CommandLine) -> None:
    """Models that do not run are skipped."""
    await command_line.type("load", "qwen")
    said = await command_line.type("stop", "--all")

    assert (said.code, said.out) == (0, "qwen has stopped\n")
    assert not command_line.rig.dispatcher.views.current().running()


async def test_stop_needs_a_name_or_all(command_line: CommandLine) -> None:
    """Neither and both are usage errors."""
    assert [(await command_line.type("stop")).code, (await command_line.type("stop", "qwen", "--all")).code] == [2, 2]


async def test_why_prints_the_phase_and_its_causes(command_line: CommandLine) -> None:
    """The phase comes first, then the causes of the last start and the last stop."""
    await command_line.type("load", "qwen")
    await command_line.type("load", "org/llama")
    said = await command_line.type("why", "qwen")

    phase, started, stopped = said.out.splitlines()
    assert phase == "qwen is cold: unloaded for org/llama: models run one at a time without `devices`"
    assert started.startswith("last started ")
    assert started.endswith(": loaded explicitly (operator or preload)")
    assert stopped.endswith(": unloaded for org/llama: models run one at a time without `devices`")


async def test_why_knows_the_last_failure(command_line: CommandLine) -> None:
    """The failure is shown once, also after the model's state has changed."""
    await command_line.type("load", "dud")
    failed = await command_line.type("why", "dud")
    command_line.rig.launcher.broken = ()
    await command_line.type("load", "dud")
    recovered = await command_line.type("why", "dud")

    assert failed.out.count("dud exited with code 1") == 1
    assert "last failure: dud exited with code 1" in recovered.out


def test_why_of_a_model_that_backs_off() -> None:
    """The sentence is English, and what the failure says is there once, followed by the server's output."""
    why = "dud is not ready: it exited with code 1 while loading. See `hotseat logs dud`."
    details = {**EMPTY, "phase": "backoff", "failures": 2, "retry_in_s": 2.0, "why": why}

    assert sentences({**details, "last_error": f"{why[:-1]}; its last output was:\nerror: no such file"}) == [
        "dud is backing off: it exited with code 1 while loading. See `hotseat logs dud`.",
        "it failed 2 times in a row; the next try is in 2s; `hotseat load dud` tries now",
        "its last output was:\nerror: no such file",
    ]


def test_why_of_a_load_that_takes_longer_than_usual() -> None:
    """Nobody is told that the response comes in 0 s."""
    ticket = {"ticket": 3, "waited_s": 4.0, "why": "loading dud: 4 s so far", "expected_s": 0.2, "at_most_s": None}

    assert waiting(ticket) == "request 3 has waited 4s: loading dud: 4 s so far"


async def test_a_model_that_failed_is_reported(command_line: CommandLine) -> None:
    """`ps` and `why` say how often it failed and when it is started again."""
    await command_line.type("load", "dud")
    listed, asked = await command_line.type("ps"), await command_line.type("why", "dud")

    assert "\ndud failed once; the next request starts it; see `hotseat why dud`\n" in listed.out
    assert "\nit failed once; the next request starts it; `hotseat load dud` tries now\n" in asked.out


def test_a_model_that_was_started_again_is_not_failing() -> None:
    """Its failures count until it answers a request, but no request has to start it."""
    assert [is_failing({"failures": 1, "phase": phase}) for phase in ("cold", "backoff", "loading", "ready")] == [
        True,
        True,
        False,
        False,
    ]


async def test_a_crash_is_the_last_stop(command_line: CommandLine) -> None:
    """It is newer than the eviction before it."""
    await command_line.type("load", "qwen")
    await command_line.type("load", "org/llama")
    await command_line.type("load", "qwen")
    command_line.rig.launcher.crash("qwen", "was terminated by SIGSEGV")
    await come_true(lambda: command_line.rig.dispatcher.views.of(ModelName("qwen")).phase is Phase.COLD)
    said = await command_line.type("why", "qwen")

    assert said.out.splitlines()[-1].endswith(": qwen was terminated by SIGSEGV")


async def test_why_tells_each_who_waits(command_line: CommandLine) -> None:
    """Every waiting request has a sentence."""
    command_line.rig.launcher.slow = ("qwen",)
    async with asyncio.TaskGroup() as group:
        group.create_task(command_line.rig.dispatcher.operator.load(ModelName("qwen")))
        await come_true(lambda: command_line.rig.launcher.is_starting("qwen"))
        said = await command_line.type("why", "qwen")
        command_line.rig.launcher.become_ready("qwen")

    assert re.match(r"request 1 has waited \d+s: loading qwen: \d+ s so far, its usual time ", said.out.splitlines()[1])


async def test_reload_says_what_it_touched(command_line: CommandLine) -> None:
    """Changed models are named; the others keep running."""
    command_line.rig.reload_result = ReloadResult(
        CatalogChange(added=(ModelName("new"), ModelName("newer"))), ("models.new", "models.newer", "logLevel")
    )
    touched = await command_line.type("reload")
    command_line.rig.reload_result = ReloadResult()
    untouched = await command_line.type("reload")

    assert touched.out == (
        "the configuration was reloaded; added: new, newer; changed keys: models.new, models.newer, logLevel\n"
    )
    assert untouched.out == "the configuration was reloaded; nothing changed\n"


async def test_reload_says_what_needs_a_restart(command_line: CommandLine) -> None:
    """Changes that are not in force are not passed over."""
    command_line.rig.reload_result = ReloadResult(pending=("fleet", "tls"))
    said = await command_line.type("reload")

    assert said.out == "the configuration was reloaded; not in force before a restart: fleet, tls\n"


async def test_reload_of_a_wrong_file_exits_3_with_every_problem(command_line: CommandLine) -> None:
    """An invalid configuration has its own exit code, wherever it is found."""
    command_line.rig.reload_result = ReloadResult(problems=("config.yaml:5:5: models.qwen.tll: unknown key",))
    said = await command_line.type("reload")

    assert said.code == 3
    assert said.err.splitlines()[1] == "config.yaml:5:5: models.qwen.tll: unknown key"


@pytest.mark.parametrize("command", [("ps",), ("list",), ("load", "m"), ("stop", "m"), ("logs",), ("why", "m")])
def test_no_server_is_exit_4_with_the_next_step(typed: Typed, command: tuple[str, ...]) -> None:
    """The message says how to start the server."""
    said = typed(*command, "--url", "http://127.0.0.1:9")

    assert said.code == 4
    assert "hotseat serve" in said.err
    assert said.err.count("\n") == 1


async def test_profiles_are_shown_and_activated(command_line: CommandLine) -> None:
    """The list shows the pins of each profile."""
    night = Profile("night", "quiet hours", {"gpt": "qwen", "dud": ""})
    command_line.rig.dispatcher.tell(
        CatalogChanged(replace(command_line.rig.dispatcher.catalog, profiles={"night": night}))
    )
    activated = await command_line.type("profile", "night")
    shown = await command_line.type("profile")
    as_json = await command_line.type("profile", "--json")
    off = await command_line.type("profile", "--off")

    assert activated.out == "profile night is active\n"
    assert shown.out.splitlines() == [
        "PROFILE  ACTIVE  PINS                   DESCRIPTION",
        "night    yes     gpt → qwen, dud → off  quiet hours",
    ]
    assert json.loads(as_json.out)["active"] == "night"
    assert off.out == "no profile is active\n"


async def test_a_profile_nobody_defined(command_line: CommandLine) -> None:
    """The server's message is printed."""
    said = await command_line.type("profile", "night")

    assert (said.code, said.err) == (1, 'hotseat: profile "night" is not defined in the configuration.\n')


def test_a_server_that_an_earlier_process_started_is_called_adopted() -> None:
    """Beside its phase."""
    assert phase_of({"phase": "ready", "adopted": True}) == "ready, adopted"
    assert phase_of({"phase": "ready", "adopted": False}) == "ready"


FIGURE = re.compile(r"\d ?%|about \d|usually \d|\d ?s left|served in|at most")
SHOWN = (("ps",), ("why", "qwen"), ("why", "org/llama"))
ASKED = ("/hotseat/models", "/hotseat/models/qwen", "/hotseat/queue", "/hotseat/status", "/v1/models", "/models")
ABOUT_TIME = {"progress", "load_s", "expected_s", "at_most_s"}


def figures_in(value: Any) -> Iterator[tuple[str, object]]:
    """Every member about how long a load takes or how far it is."""
    if isinstance(value, dict):
        yield from ((name, each) for name, each in value.items() if name in ABOUT_TIME)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from figures_in(each)


async def test_no_command_and_no_route_shows_a_figure_that_nobody_knows(command_line: CommandLine) -> None:
    """A first load, a request that waits for it and one that waits for another model: no share, and no time."""
    rig = command_line.rig
    rig.launcher.slow = ("qwen",)
    async with asyncio.TaskGroup() as loads, httpx2.AsyncClient() as client:
        for name in ("qwen", "org/llama"):
            loads.create_task(rig.dispatcher.operator.load(ModelName(name)))
        await come_true(lambda: rig.launcher.is_starting("qwen") and len(rig.dispatcher.views.of_all().queue) == 2)
        said = [(await command_line.type(*words)).out for words in SHOWN]
        answers = {path: (await client.get(command_line.url + path)).json() for path in ASKED}
        rig.launcher.become_ready("qwen")

    assert [found for out in said if (found := FIGURE.findall(out))] == []
    assert [(path, each) for path, got in answers.items() for each in figures_in(got) if each[1] is not None] == []
    assert [name for got in answers.values() for name, _ in figures_in(got)], "the members have other names now"
