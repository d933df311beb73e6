"""A reload names what changed, and checks the resulting settings: the file's, with those that stay as at startup."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs
from tests.support.config_files import ConfigFiles

from hotseat.catalog.catalog import compare
from hotseat.config.effective import resolved
from hotseat.config.load import read
from hotseat.config.reload import ActiveConfig, Reloader, changed_keys, shortened
from hotseat.identifiers import LOCAL_HOST, DeviceName, HostName, ModelName, Place
from hotseat.model_files.folder import ModelFolders
from hotseat.settings import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from hotseat.catalog.catalog import CatalogChange
    from hotseat.config.load import Loaded
    from hotseat.config.reload import ReloadTarget

MODEL = "models: {qwen: {cmd: 'serve ${PORT}'}}\n"
FLEET = "fleet: {nats: 'nats://127.0.0.1:9', secret: 0123456789abcdef0123456789abcdef}\n"


class ReloadRig:
    """Loads one file, and records what it applies."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.outcomes: list[bool] = []
        self.applied: list[Loaded] = []
        self.certificate: OSError | None = None

    def load(self) -> Loaded:
        return self._loaded

    def in_use(self) -> frozenset[str]:
        return frozenset()

    def renew_certificate(self) -> None:
        if self.certificate is not None:
            raise self.certificate

    def apply(self, loaded: Loaded) -> None:
        self.applied.append(loaded)

    def change_catalog(self, loaded: Loaded) -> CatalogChange:
        return compare(loaded.catalog, loaded.catalog)

    def reloaded(self, *, success: bool) -> None:
        self.outcomes.append(success)


async def test_keys_do_not_join_a_secret_that_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has both, but the fleet stays as it was at startup, so the old configuration stays active."""
    monkeypatch.chdir(tmp_path)
    files = ConfigFiles(tmp_path)
    begun = files.load(MODEL)
    without_secret = Fleet(("nats://127.0.0.1:9",), HostName("gpu1"))
    begun = replace(begun, settings=structs.replace(begun.settings, fleet=without_secret))
    rig = ReloadRig(files.load(f"{MODEL}{FLEET}apiKeys: [open-sesame-0123456789]"))
    active = ActiveConfig(begun)
    result = await Reloader(active, ModelFolders(), cast("ReloadTarget", rig)).reload()

    assert "fleet.secret" in result.problems[0]
    assert active.loaded is begun
    assert rig.outcomes == [False]


async def test_https_stays_as_it_was_at_startup(files: ConfigFiles, caplog: pytest.LogCaptureFixture) -> None:
    """The log says what takes effect after a restart."""
    rig = ReloadRig(files.load(f"{MODEL}tls: {{cert: cert.pem, key: key.pem}}\n"))
    await Reloader(ActiveConfig(files.load(MODEL)), ModelFolders(), cast("ReloadTarget", rig)).reload()
    [applied] = rig.applied

    assert applied.settings.tls is None
    assert "a change of tls takes effect after a restart" in caplog.text


async def test_a_certificate_that_cannot_be_read(files: ConfigFiles, caplog: pytest.LogCaptureFixture) -> None:
    """Everything else is applied, such as the removal of a key; the result, the log and the report name the file."""
    https = f"{MODEL}tls: {{cert: cert.pem}}\n"
    rig = ReloadRig(files.load(https))
    rig.certificate = FileNotFoundError(2, "No such file or directory")
    active = ActiveConfig(files.load(f"{https}apiKeys: [open-sesame-0123456789]\n"))
    reloader = Reloader(active, ModelFolders(), cast("ReloadTarget", rig))
    result = await reloader.reload()

    assert active.settings.access.keys == rig.applied[0].settings.access.keys == ()
    assert (result.keys, result.is_applied, rig.outcomes) == (("apiKeys",), True, [False])
    assert "No such file or directory" in result.problems[0]
    assert "cert.pem" in result.problems[0]
    assert reloader.report().refused == result.problems
    assert "the certificate was not renewed" in caplog.text
    rig.certificate = None
    assert (await reloader.reload()).problems == ()
    assert not reloader.has_failed


async def test_a_certificate_that_has_moved(files: ConfigFiles) -> None:
    """The old file may be gone: the reload succeeds and names what takes effect after a restart."""
    rig = ReloadRig(files.load(f"{MODEL}tls: {{cert: new.pem}}\n"))
    rig.certificate = FileNotFoundError(2, "No such file or directory")
    active = ActiveConfig(files.load(f"{MODEL}tls: {{cert: old.pem}}\n"))
    result = await Reloader(active, ModelFolders(), cast("ReloadTarget", rig)).reload()

    assert (result.pending, result.problems, rig.outcomes) == (("tls",), (), [True])


async def test_the_address_for_ollamas_clients_stays_as_it_was_at_startup(
    files: ConfigFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """Its old value is also the one that is checked: a new one would need a key."""
    rig = ReloadRig(files.load(f"{MODEL}ollama: {{listen: ':11434'}}\n"))
    await Reloader(ActiveConfig(files.load(MODEL)), ModelFolders(), cast("ReloadTarget", rig)).reload()
    [applied] = rig.applied

    assert applied.settings.ollama_listen is None
    assert "a change of ollama.listen takes effect after a restart" in caplog.text


async def test_the_result_names_what_needs_a_restart(files: ConfigFiles) -> None:
    """Every key that stays as it was at startup is named, and only those."""
    changed = f"{MODEL}logLevel: debug\nlisten: 127.0.0.1:9\nollama: {{listen: '127.0.0.1:8'}}\n{FLEET}"
    rig = ReloadRig(files.load(changed))
    reloader = Reloader(ActiveConfig(files.load(MODEL)), ModelFolders(), cast("ReloadTarget", rig))

    assert (await reloader.reload()).pending == ("listen", "ollama.listen", "fleet")
    assert (await reloader.reload()).keys == ()


async def test_a_fleet_secret_that_stays_in_force_stays_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file names another variable now, but the old secret is valid until the next start."""
    monkeypatch.chdir(tmp_path)
    files, environ = ConfigFiles(tmp_path), {"OLD": "0123456789abcdef-old", "NEW": "0123456789abcdef-new"}
    begun, renewed = (
        files.load(f"{MODEL}fleet: {{nats: 'nats://127.0.0.1:9', name: gpu1, secret: '${{env.{name}}}'}}\n", environ)
        for name in ("OLD", "NEW")
    )
    rig = ReloadRig(renewed)
    await Reloader(ActiveConfig(begun), ModelFolders(), cast("ReloadTarget", rig)).reload()
    [applied] = rig.applied

    assert applied.settings.fleet == begun.settings.fleet
    assert applied.withheld_env == {"OLD", "NEW"}


async def test_a_measurement_is_no_change_of_a_key(files: ConfigFiles) -> None:
    """The same file after a model was measured: its memory counts differently, but nobody has changed a key."""
    begun = files.load(f"devices: {{gpu0: {{memory: 24GiB}}}}\n{MODEL}")
    measured = replace(begun, measured={ModelName("qwen"): {Place(LOCAL_HOST, DeviceName("gpu0")): 1 << 30}})
    reloader = Reloader(ActiveConfig(begun), ModelFolders(), cast("ReloadTarget", ReloadRig(measured)))
    result = await reloader.reload()

    assert result.keys == ()
    assert reloader.report().resolved["models"]["qwen"]["memory"] == {
        "devices": {"gpu0": 1 << 30},
        "source": "measured",
    }


SERVER = "cmd: 'server --port ${PORT}'"
MODELS = f"models: {{a: {{{SERVER}}}, b: {{{SERVER}, ttl: 5}}}}\n"


def effective(files: ConfigFiles, text: str) -> dict[str, Any]:
    return resolved(read([files.write("config.yaml", text)], environ={}))


def test_the_changed_keys_are_named_by_their_path(files: ConfigFiles) -> None:
    """A ttl and a pin are named, although no model restarts; top-level keys are named as in the file."""
    before = effective(files, MODELS)
    models = f"models: {{a: {{{SERVER}, pinned: true}}, b: {{{SERVER}, ttl: 6}}}}"
    after = effective(files, f"{models}\nlogLevel: debug\n")

    assert set(changed_keys(before, after)) == {"models.a.pinned", "models.b.ttl", "logLevel"}


def test_a_device_is_named_and_what_follows_from_it_is_not(files: ConfigFiles) -> None:
    """How many models run together changes with it, but that is no key."""
    after = effective(files, f"{MODELS}devices: {{gpu0: {{memory: 8GiB}}}}\n")

    assert changed_keys(effective(files, MODELS), after) == ("devices.gpu0",)


def test_conversations_are_named_and_the_models_that_keep_them_are_not(files: ConfigFiles) -> None:
    """Which models these are follows from their commands."""
    llama = MODELS.replace("server", "llama-server")

    assert changed_keys(effective(files, llama), effective(files, f"{llama}conversations: on\n")) == (
        "conversations.disk",
    )


def test_a_new_or_removed_model_is_one_key(files: ConfigFiles) -> None:
    """Its own keys are not listed."""
    before = effective(files, MODELS)
    after = effective(files, f"models: {{a: {{{SERVER}}}, c: {{{SERVER}}}}}\n")

    assert changed_keys(before, after) == ("models.b", "models.c")


def test_an_unchanged_file_has_no_changed_keys(files: ConfigFiles) -> None:
    """Whatever its layout."""
    assert changed_keys(effective(files, MODELS), effective(files, MODELS + "\n# comment\n")) == ()


def test_many_keys_are_shortened() -> None:
    """A log line names ten."""
    assert shortened(tuple("abc")) == "a, b, c"
    assert shortened(tuple("abcdefghijkl")) == "a, b, c, d, e, f, g, h, i, j, and 2 more"
