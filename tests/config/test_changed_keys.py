"""Which keys a reload changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.config.changed_keys import changed_keys, shortened
from hotseat.config.effective import resolved
from hotseat.config.load import read

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

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
