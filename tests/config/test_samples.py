"""Typical llama-swap configurations, read unchanged."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hotseat.catalog.catalog import Policy
from hotseat.cli.check import check
from hotseat.config.load import Loaded, read
from hotseat.identifiers import LOCAL_HOST, DeviceName, Place
from hotseat.settings import ApiKey, ErrorFormat, Role

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles


SAMPLES = Path(__file__).parent / "samples"
ENVIRON = {"HOTSEAT_KEY": "sk-ours-and-ours-alone", "HF_TOKEN": "hf-theirs", "ALPHA_KEY": 'a"b'}
GIB = 1 << 30


def sample(name: str) -> Loaded:
    return read([SAMPLES / f"{name}.yaml"], environ=ENVIRON)


def test_one_card_and_three_models() -> None:
    """The commonest file: commands over several lines, aliases, time limits, a preload."""
    loaded = sample("single-gpu")
    qwen, embed, whisper = loaded.catalog.models.values()

    assert loaded.problems == ()
    assert " ".join(qwen.recipe.argv) == (
        "/opt/llama.cpp/llama-server --host 127.0.0.1 --port ${PORT} -m /models/qwen3-8b-q5_k_m.gguf -c 32768 -ngl 99"
    )
    assert (qwen.aliases, qwen.title, qwen.ttl_s, qwen.concurrency_limit) == (
        ("gpt-4o-mini", "4.10"), "Qwen3 8B", 5400.0, 4,
    )  # fmt: skip
    assert qwen.health_check_timeout_s == 300.0
    assert (embed.unlisted, embed.ttl_s, embed.health_check_timeout_s) == (True, None, 20.0)
    assert (whisper.recipe.check_endpoint, whisper.ttl_s, whisper.unload_timeout_s) == (None, 600.0, 3.0)
    assert whisper.recipe.env == (("CUDA_VISIBLE_DEVICES", "0"), ("GGML_OPTS", "a=b"))
    assert whisper.changes.model_name == "whisper-1"
    assert [spec.recipe.preferred_port for spec in (embed, qwen, whisper)] == [10001, 10002, 10003]
    assert (loaded.catalog.default_model, loaded.catalog.preload) == ("qwen3-8b", ("qwen3-8b",))


def test_groups_of_models() -> None:
    """Groups that swap, persistent models, and a large model that runs alone."""
    loaded = sample("groups")
    groups = loaded.catalog.groups

    def leaves(resident: str, wanted: str) -> bool:
        return groups.must_leave(loaded.catalog.resolve(resident).name, loaded.catalog.resolve(wanted).name)

    assert loaded.problems == ()
    assert leaves("chat-a", "b")
    assert not leaves("embed", "giant")
    assert not leaves("rerank", "embed")
    assert leaves("chat-a", "giant")
    assert not leaves("giant", "chat-a")
    assert loaded.catalog.preload == ("embed", "rerank", "chat-b")
    assert all(spec.unload_timeout_s == 5.0 for spec in loaded.catalog.models.values())
    assert loaded.settings.include_aliases_in_list
    assert loaded.settings.logging.to_stdout == "both"


def test_containers_with_a_command_that_stops_them() -> None:
    """Anchors and merges, keys from the environment, memory on two devices, a socket."""
    loaded = sample("docker")
    qwen, remote, socket = loaded.catalog.models.values()
    gpu0, gpu1 = (Place(LOCAL_HOST, DeviceName(name)) for name in ("gpu0", "gpu1"))

    assert qwen.recipe.stop == ("docker", "stop", "-t", "30", "hotseat-qwen")
    assert qwen.recipe.argv[-2:] == ("--api-key", "sk-upstream")
    assert dict(qwen.recipe.env) == {"HF_TOKEN": "hf-theirs", "VLLM_LOGGING_LEVEL": "WARNING", "VERSION": "1.10"}
    assert (qwen.unload_timeout_s, qwen.health_check_timeout_s) == (45.0, 900.0)
    assert qwen.memory == {gpu0: 18 * GIB, gpu1: 2 * GIB}
    assert remote.recipe.stop == ("kill", "-INT", "${PID}")
    assert (remote.pinned, remote.urgency, remote.drain_timeout_s, remote.memory) == (True, 2.5, 60.0, {gpu0: 6 * GIB})
    assert (socket.recipe.proxy, socket.unload_timeout_s, socket.ttl_s) == ("unix:/run/my.sock", 2.0, 60.0)
    assert loaded.catalog.budgets == {gpu0: 23 * GIB, gpu1: 24_000_000_000}
    assert loaded.catalog.policy == Policy(3.0, 64)
    assert loaded.settings.access.api_keys == (
        ApiKey("sk-ours-and-ours-alone", Role.ADMIN),
        ApiKey("for-the-website-alone", Role.INFERENCE),
    )
    assert loaded.settings.listen == ("0.0.0.0", 8080)
    assert loaded.settings.error_format is ErrorFormat.OPENAI
    assert not loaded.settings.metrics
    assert loaded.withheld_env == {"HOTSEAT_KEY"}
    assert [str(problem.severity.value) for problem in loaded.problems] == ["note"]


def test_many_names_and_macros() -> None:
    """Macros within macros, types kept, overrides, and ports counted by name."""
    loaded = sample("macros")
    models = loaded.catalog.models.values()
    zephyr, mine, alpha, _ = models

    assert zephyr.recipe.argv[-6:] == ("-c", "8192", "--flash-attn", "true", "-m", "/srv/models/zephyr.gguf")
    assert zephyr.aliases == ("zephyr:latest", "z", "7b")
    assert zephyr.description == "zephyr with 8192 tokens"
    assert mine.recipe.argv[-8:] == (
        "-c", "32768", "--flash-attn", "true", "-m", "/srv/models/my-q8.gguf", "--alias", "my model",
    )  # fmt: skip
    assert mine.changes.strip == ("top_k", "options.num_ctx")
    assert dict(mine.changes.set) == {
        "temperature": 0.7,
        "max_tokens": 32768,
        "chat_template_kwargs": {"enable_thinking": True},
        "stop": None,
    }
    assert alpha.recipe.argv[-1] == 'a"b'
    assert alpha.changes.strip == ("seed", "min_p")
    assert {spec.name: spec.recipe.preferred_port for spec in models} == {
        "alpha": 5800, "my model": 5801, "zephyr": 5802, "fixed": None,
    }  # fmt: skip
    assert not loaded.catalog.groups.must_leave(alpha.name, zephyr.name)
    assert loaded.settings.ignore_paths == (r"\.map$",)
    assert loaded.withheld_env == frozenset()


@pytest.mark.parametrize(
    "name", ["single-gpu", "groups", "macros", "served/selectors", "served/vllm", "served/whisper", "served/retrieval"]
)
def test_what_check_prints_as_json_means_the_same_when_read_again(
    name: str, files: ConfigFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolved configuration omits nothing but secrets, and adds nothing."""
    for variable, value in ENVIRON.items():
        monkeypatch.setenv(variable, value)

    assert check([SAMPLES / f"{name}.yaml"], as_json=True, lenient=False) == 0

    config = json.loads(capsys.readouterr().out.replace("${env.ALPHA_KEY}", json.dumps(ENVIRON["ALPHA_KEY"])[1:-1]))[
        "config"
    ]
    again, before = files.load(yaml.safe_dump(as_file(config), sort_keys=False)), sample(name)
    assert again.catalog == before.catalog
    assert again.settings == before.settings


def as_file(config: dict[str, Any]) -> dict[str, Any]:
    """A resolved configuration as a file."""
    models = {
        name: {
            **{key: value for key, value in model.items() if key != "port"},
            "cmd": shlex.join(model["cmd"]),
            "cmdStop": shlex.join(model["cmdStop"]),
        }
        for name, model in config["models"].items()
    }
    groups = {
        group["name"]: {key: value for key, value in group.items() if key != "name"} for group in config["groups"]
    }
    return {
        **config["settings"],
        "models": models,
        "groups": groups,
        "scheduler": config["scheduler"],
        "selectors": config["selectors"],
        "profiles": config["profiles"],
        "defaultModel": config["defaultModel"],
        "returnToDefault": config["returnToDefault"],
        "hooks": {"on_startup": {"preload": config["preload"]}},
    }
