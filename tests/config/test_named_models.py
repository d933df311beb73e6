"""Peers, selectors, profiles and names by id, as files write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.named_models import Strategy
from hotseat.catalog.spec import Capabilities, Timeouts
from hotseat.config.effective import resolved
from hotseat.config.load import read
from hotseat.identifiers import Address

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

TWO = "models:\n  a: {cmd: 's ${PORT}'}\n  b: {cmd: 's ${PORT}', aliases: [bee]}\n"
PEER = """
peers:
  box:
    proxy: https://box.example/llm/
    apiKey: sesame
    models: [far, both, bee, org/x]
    filters: {stripParams: seed, setParams: {top_k: 5}, setParamsByID: {far: {effort: 1}}}
    timeouts: {connect: 3, responseHeader: 0}
  cloud: {proxy: "http://10.0.0.9:81", models: [both]}
"""


def test_a_peer_gives_its_models_names(files: ConfigFiles) -> None:
    """Full names always work, bare ones if one peer has them and no local model does."""
    loaded = files.load(TWO + PEER)
    remotes = loaded.catalog.remotes

    assert list(remotes) == ["box/far", "box/both", "box/bee", "box/org/x", "cloud/both", "far", "org/x"]
    assert remotes["far"] is remotes["box/far"]
    assert loaded.problems == ()


def test_what_is_known_of_a_model_of_a_peer(files: ConfigFiles) -> None:
    """Address, key, changes and time limits; the default limit of the answer is ten minutes."""
    remotes = files.load(TWO + PEER).catalog.remotes
    far, both = remotes["box/far"], remotes["cloud/both"]

    assert far.address == Address("box.example", 443, tls=True, prefix="/llm")
    assert (far.api_key, far.changes.model_name, far.changes.strip) == ("sesame", "far", ("seed",))
    assert dict(far.changes.set) == {"top_k": 5, "effort": 1}
    assert far.timeouts == Timeouts(connect_s=3.0, response_header_s=None)
    assert (both.api_key, both.timeouts.response_header_s) == ("", 600.0)


def test_a_peers_key_is_kept_from_model_servers_and_readers(files: ConfigFiles) -> None:
    """Neither the resolved configuration nor a command line shows it, and its variable is withheld."""
    text = TWO.replace("s ${PORT}", "s ${PORT} sesame") + PEER.replace("sesame", "${env.BOX_KEY}", 1)
    loaded = files.load(text, {"BOX_KEY": "sesame"})

    assert "sesame" not in json.dumps(resolved(loaded))
    assert loaded.withheld_env == {"BOX_KEY"}


def test_a_proxy_in_the_environment_is_not_used(files: ConfigFiles) -> None:
    """A warning says so if there are peers."""
    environ = {"HTTPS_PROXY": "http://proxy:3128"}

    assert [str(problem) for problem in files.load(TWO + PEER, environ).problems] == [
        "config.yaml:5:1: warning: peers: HTTPS_PROXY is set, but has no effect: peers are reached directly"
    ]
    assert read([files.write("plain.yaml", TWO)], environ=environ).problems == ()


def test_a_selector_and_its_settings(files: ConfigFiles) -> None:
    """Every key reaches the selector."""
    selector = (
        "groups: {g: {swap: no, members: [a, b]}}\nselectors: {best: {strategy: spillover, targets: [bee, a],"
        " settings: {spillover: 3}, name: Best, description: D, unlisted: yes, metadata: {k: [1]}}}"
    )
    loaded = files.load(TWO + selector)
    best = loaded.catalog.selectors["best"]

    assert (best.strategy, best.targets, best.spillover) == (Strategy.SPILLOVER, ("bee", "a"), 3)
    assert (best.title, best.description, best.unlisted, dict(best.metadata)) == ("Best", "D", True, {"k": [1]})
    assert loaded.problems == ()


def test_a_selector_is_not_preloaded(files: ConfigFiles) -> None:
    """The warning does not suggest the same name again."""
    text = "selectors: {best: {strategy: pin, targets: [a]}}\nhooks: {on_startup: {preload: [best]}}"
    loaded = files.load(TWO + text)

    assert [problem.message for problem in loaded.problems] == [
        '"best" is not configured on this machine, so it is not preloaded'
    ]


def test_a_bare_name_of_a_peer_yields_to_a_selector(files: ConfigFiles) -> None:
    """Local names win; the full name still means the peer's model."""
    text = "peers: {p: {proxy: 'http://x', models: [m]}}\nselectors: {m: {strategy: warm, targets: [a, p/m]}}"
    catalog = files.load(TWO + text).catalog

    assert catalog.named_model("m") is catalog.selectors["m"]
    assert catalog.named_model("p/m") is catalog.remotes["p/m"]


def test_a_profile_and_its_pins(files: ConfigFiles) -> None:
    """None is active at the start; null and an empty text switch a name off."""
    loaded = files.load(TWO + "profiles: {night: {description: D, pins: {gpt: bee, a: '', b: ~}}}")
    night = loaded.catalog.profiles["night"]

    assert (night.description, dict(night.pins)) == ("D", {"gpt": "bee", "a": "", "b": ""})
    assert loaded.catalog.active_profile is None
    assert loaded.problems == ()


def test_names_by_id_are_aliases_with_changes(files: ConfigFiles) -> None:
    """After setParams, and `model` stays protected; a model's own name may be one of them."""
    filters = "{setParams: {t: 1}, setParamsByID: {'m:high': {t: 9, 'k.x': 2, model: no}, m: {t: 5}}}"
    catalog = files.load(f"models: {{m: {{cmd: 's ${{PORT}}', aliases: [n], filters: {filters}}}}}").catalog

    assert catalog.models[catalog.resolve("m").name].aliases == ("n", "m:high")
    assert dict(catalog.resolve("m:high").changes.set) == {"t": 9, "k.x": 2}
    assert dict(catalog.resolve("m").changes.set) == {"t": 5}
    assert dict(catalog.resolve("n").changes.set) == {"t": 1}


def test_what_a_model_says_of_itself_and_of_time(files: ConfigFiles) -> None:
    """Metadata keeps the types of its macros; 0 means no limit."""
    text = """
macros: {size: 8}
models:
  m:
    cmd: s ${PORT}
    metadata: {size: "${size}", tags: [x]}
    capabilities: {in: [text, image], out: [text], tools: yes, reranker: yes, context: 4096}
    timeouts: {connect: 0, keepalive: 0, responseHeader: 2m, tlsHandshake: 0, expectContinue: 1, idleConn: 0}
    compat: {ignoreWebsockets: yes}
"""
    loaded = files.load(text)
    spec = loaded.catalog.resolve("m")

    assert spec.metadata == {"size": 8, "tags": ["x"]}
    assert spec.capabilities == Capabilities(("text", "image"), ("text",), True, True, 4096)
    assert spec.timeouts == Timeouts(None, None, None, 120.0, None)
    assert spec.ignore_websockets
    assert loaded.problems == ()


def test_the_special_name_of_comfyui(files: ConfigFiles) -> None:
    """A page that opens dozens of connections may use more than two; its websockets do not keep the model loaded."""
    comfyui = files.load("models: {comfyui_auto: {cmd: 's ${PORT}', concurrencyLimit: 2}}").catalog.resolve(
        "comfyui_auto"
    )
    unlimited = files.load("models: {comfyui_auto: {cmd: 's ${PORT}'}}").catalog.resolve("comfyui_auto")

    assert (comfyui.concurrency_limit, comfyui.ignore_websockets) == (50, True)
    assert unlimited.concurrency_limit is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("peers: {p: {proxy: 'ftp://x', models: [m]}}",
         "4:13: error: peers.p.proxy: must begin with http://, https:// or unix:/"),
        ("  p/m: {cmd: 's ${PORT}'}\npeers: {p: {proxy: 'http://x', models: [m]}}",
         '5:41: error: peers.p.models[0]: "p/m" is already models["p/m"] or an alias of it.'
         " Rename the model or the peer"),
        ("peers: {p: {proxy: 'http://x', apiKey: \"a\\r\\nb: c\", models: [m]}}",
         "4:32: error: peers.p.apiKey: a key must not contain spaces"),
        ("peers: {p: {proxy: 'http://x', models: [m]}}\nselectors: {p/m: {strategy: pin, targets: [a]}}",
         '5:13: error: selectors["p/m"]: "p/m" is already the name of a model. Choose another name'),
        ("selectors: {bee: {strategy: pin, targets: [a]}}",
         '4:13: error: selectors.bee: "bee" is already the name of a model. Choose another name'),
        ("selectors: {s: {strategy: pin, targets: [c]}}",
         '4:42: error: selectors.s.targets[0]: no model is called "c"'),
        ("selectors: {s: {strategy: pin, targets: [a]}, t: {strategy: pin, targets: [s]}}",
         '4:76: error: selectors.t.targets[0]: "s" is a selector. Name its targets instead'),
        ("selectors: {s: {strategy: pin, targets: []}}", "4:32: error: selectors.s.targets: must not be empty"),
        ("selectors: {s: {strategy: spillover, targets: [a, b]}}",
         '4:38: error: selectors.s.targets: loading "a" unloads "b".'
         " Let them run together with groups, a matrix or devices"),
        ("groups: {g: {swap: no, members: [a, b]}}\nselectors: {s: {strategy: spillover, targets: [b, bee]}}",
         '5:38: error: selectors.s.targets: "b" is a target twice. Each target must be a different model'),
        ("profiles: {p: {pins: {x: be}}}", '4:23: error: profiles.p.pins.x: no model is called "be".'
         ' Did you mean "bee"?'),
        ("profiles: {p: {pins: {}}}", "4:16: error: profiles.p.pins: must not be empty"),
    ],
)  # fmt: skip
def test_a_name_that_leads_nowhere_is_an_error_in_its_place(files: ConfigFiles, text: str, problem: str) -> None:
    """One mistake gives one error."""
    assert files.mistakes(TWO + text) == [f"config.yaml:{problem}"]


def test_a_broken_target_is_reported_once(files: ConfigFiles) -> None:
    """A reference to an invalid model gives no further error."""
    text = "models:\n  a: {cmd: ''}\nselectors: {s: {strategy: pin, targets: [a]}}\nprofiles: {p: {pins: {x: a}}}\n"

    assert files.mistakes(text) == ["config.yaml:2:7: error: models.a.cmd: must not be empty"]
