"""The key `sleep` and the levels it defines; the name under which llama-server reports its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from hotseat.catalog.sleeping import Ask, Run, Sleep, SleepLevel
from hotseat.config.effective import resolved
from hotseat.config.specs import ALIAS, with_alias
from hotseat.identifiers import HOST_MEMORY, LOCAL_HOST, DeviceName, ModelName, Place

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

GIB = 1 << 30
GPU = Place(LOCAL_HOST, DeviceName("gpu0"))
DEVICES = "devices: {gpu0: {memory: 24GiB}, ram: {memory: 64GiB}}\n"
VLLM = "cmd: 'vllm serve --port ${PORT} --enable-sleep-mode', env: [VLLM_SERVER_DEV_MODE=1]"
LLAMA = "cmd: 'llama-server --port ${PORT} --sleep-idle-seconds 1'"
ANY = "cmd: 'serve ${PORT}'"


def text(model: str, top: str = "") -> str:
    return f"{top}models:\n  m: {{{model}}}\n"


def sleep_of(files: ConfigFiles, model: str, top: str = "") -> Sleep:
    catalog = files.load(text(model, top)).catalog
    sleep = catalog.models[ModelName("m")].sleep
    assert sleep is not None
    return sleep


LEVEL_1 = SleepLevel("1", (Ask("POST", "/sleep?level=1&mode=wait"),), (Ask("POST", "/wake_up"),), check="/is_sleeping")


def test_a_model_without_the_key_does_not_sleep(files: ConfigFiles) -> None:
    """Sleep is off by default."""
    assert files.load(text(ANY)).catalog.models[ModelName("m")].sleep is None


def test_vllm_by_name(files: ConfigFiles) -> None:
    """Level 1, which keeps the weights, needs no further keys."""
    assert sleep_of(files, f"{VLLM}, sleep: vllm") == Sleep((LEVEL_1,))


def test_llama_server_by_name(files: ConfigFiles) -> None:
    """It falls asleep by itself, so there is no suspend request."""
    (level,) = sleep_of(files, f"{LLAMA}, sleep: llama-server").levels

    assert (level.suspend, level.check, level.keeps_weights) == ((), "/props", False)
    assert level.resume == (Ask("POST", "/tokenize", '{"content": ""}'),)


def test_levels_of_a_known_server(files: ConfigFiles) -> None:
    """Levels are in the order of the file."""
    keys = "sleep: {server: vllm, levels: [2, 1], timeout: 30s, ttl: 1h}"
    sleep = sleep_of(files, f"{VLLM}, {keys}", DEVICES)
    deep, light = sleep.levels

    assert sleep.ttl_s == 3600
    assert (deep.name, len(deep.resume), deep.keeps_weights, deep.timeout_s) == ("2", 3, False, 30)
    assert light == replace(LEVEL_1, timeout_s=30)


def test_commands_of_ones_own(files: ConfigFiles) -> None:
    """One command or a list, with ${MODEL_ID} expanded; values known only at run time stay."""
    keys = (
        "sleep: {suspend: 'ckpt ${PID}', resume: ['GET /hi', 'ckpt -r ${MODEL_ID}'], memory: {gpu0: 1GiB, ram: 2GiB}}"
    )
    (level,) = sleep_of(files, f"{ANY}, {keys}", DEVICES).levels

    assert level.suspend == (Run(("ckpt", "${PID}")),)
    assert level.resume == (Ask("GET", "/hi"), Run(("ckpt", "-r", "m")))
    assert level.memory == {GPU: GIB, HOST_MEMORY: 2 * GIB}
    assert level.check is None


def test_a_server_that_drops_its_weights(files: ConfigFiles) -> None:
    """`memory: 0` says so of any server: nothing counts in RAM."""
    (level,) = sleep_of(files, f"{ANY}, sleep: {{resume: go, memory: 0}}", DEVICES).levels

    assert level.memory == {HOST_MEMORY: 0}


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (f"{ANY}, sleep: vlm", 'error: models.m.sleep: must be vllm or llama-server, not "vlm"'),
        (
            f"{ANY}, sleep: {{}}",
            "error: models.m.sleep.resume: is missing: nothing would wake the server. Define how to wake it",
        ),
        (
            f"{VLLM}, sleep: {{server: vllm, levels: [3]}}",
            "error: models.m.sleep.levels[0]: must be 1 or 2, not 3",
        ),
        (
            f"{VLLM}, sleep: {{server: vllm, memory: 1GiB, levels: [1, 2]}}",
            "error: models.m.sleep.levels: several levels cannot have the same suspend, resume or memory",
        ),
        (
            f"{LLAMA}, sleep: {{server: llama-server, levels: [1]}}",
            "error: models.m.sleep.levels: only vllm has levels. Remove levels",
        ),
        (f'{ANY}, sleep: {{resume: "a \'b"}}', "error: models.m.sleep.resume: No closing quotation"),
        (
            f"{ANY}, sleep: {{resume: go, memory: {{gpu7: 1GiB}}}}",
            'error: models.m.sleep.memory: no device is called "gpu7". Devices: gpu0, ram',
        ),
        (f"{ANY}, sleep: {{resume: go, ttl: soon}}", "error: models.m.sleep.ttl: must be a duration"),
    ],
)
def test_mistakes(files: ConfigFiles, model: str, problem: str) -> None:
    """Each error has a position and a fix."""
    mistakes = "\n".join(files.mistakes(text(model, DEVICES)))

    assert problem in mistakes


@pytest.mark.parametrize(
    ("model", "top", "problem"),
    [
        (
            f"{ANY}, sleep: vllm",
            "",
            "the server does not support sleeping without --enable-sleep-mode. Add it to cmd or env",
        ),
        (
            f"{ANY}, sleep: vllm",
            "",
            "the server does not support sleeping without VLLM_SERVER_DEV_MODE. Add it to cmd or env",
        ),
        (f"{ANY}, sleep: llama-server", "", "the server does not support sleeping without --sleep-idle-seconds"),
        (f"{ANY}, sleep: {{resume: go, memory: 1GiB}}", "", "models.m.sleep.memory: has no effect without devices"),
    ],
)
def test_warnings(files: ConfigFiles, model: str, top: str, problem: str) -> None:
    """A server without its sleep option never sleeps."""
    assert problem in "\n".join(files.warnings(text(model, top)))


def test_what_it_comes_to_can_be_seen(files: ConfigFiles) -> None:
    """The resolved configuration shows it without secrets."""
    keys = "sleep: {suspend: ckpt --api-key abc, resume: POST /wake, memory: {ram: 1GiB}}"
    shown = resolved(files.load(text(f"{ANY}, {keys}", DEVICES)))["models"]["m"]["sleep"]

    assert shown["levels"]["only"]["resume"] == [["POST", "/wake"]]
    assert "abc" not in str(shown)
    assert shown["levels"]["only"]["memory"] == {"ram": GIB}


def test_llama_server_gets_the_name_of_its_model() -> None:
    """Beside the variables that the configuration sets."""
    assert with_alias("qwen", ("llama-server", "-m", "x.gguf"), (("A", "b"),)) == (("A", "b"), (ALIAS, "qwen"))


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ("llama-server --alias other", ()),
        ("llama-server -a other", ()),
        ("llama-server --alias=other", ()),
        ("llama-server -m x.gguf", ((ALIAS, "other"),)),
        ("vllm serve qwen", ()),
        ("python server.py", ()),
    ],
)
def test_other_servers_and_other_aliases_are_left_alone(command: str, env: tuple[tuple[str, str], ...]) -> None:
    """An alias of the configuration wins, and only llama-server knows the variable."""
    assert with_alias("qwen", tuple(command.split()), env) == env
