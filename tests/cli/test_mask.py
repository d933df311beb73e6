"""What leaves this machine in a bundle or a report has no secrets, wherever a program prints them."""

from __future__ import annotations

import pytest

from hotseat.cli.reports.mask import Mask

MASK = Mask(None, {"HOME": "/srv/ada", "SETTING": "an unusual value", "LANG": "C"}, "the-key-of-ada")
HEAD = "2026-11-17T23:51:47.584Z qwen |"

PEM = f"-----BEGIN PRIVATE KEY-----\n{'canary' * 10}abcd\ncanary==\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("sent the-key-of-ada to it", "sent (hidden) to it"),
        ("{'HF_TOKEN': 'abc d', \"api_key\": \"x\"}", "{'HF_TOKEN': '(hidden)', \"api_key\": \"(hidden)\"}"),
        ("HF_TOKEN=abc and ?api_key=abc&x=1", "HF_TOKEN=(hidden) and ?api_key=(hidden)&x=1"),
        ("with Bearer abcdefgh", "with Bearer (hidden)"),
        ("nats://u:abc@host:4222", "nats://u:(hidden)@host:4222"),
        ("key hs-JCHNd-MmNKwt91_NLF4XD", "key (hidden)"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a.", "(hidden)."),
        ("github_pat_11ABCDEFG0abcdefghij_klmnop", "(hidden)"),
        ("as AKIAIOSFODNN7EXAMPLE here", "as (hidden) here"),
        ("hf_abcdefghijklmnopqrst sk-proj-abcdefghijklmnop", "(hidden) (hidden)"),
        (r'"{\"api_key\": \"abc d\", \"n\": 1}"', r'"{\"api_key\": \"(hidden)\", \"n\": 1}"'),
        ("token='canary one', auth = \"canary two\"", "token='(hidden)', auth = \"(hidden)\""),
        ("Settings(hf_token=b'can\\'ary', n=3)", "Settings(hf_token=b'(hidden)', n=3)"),
        ("password='canary without an end", "password='(hidden)'"),
        ("api_key: canary\nmy-secret = canary, n: 3", "api_key: (hidden)\nmy-secret = (hidden), n: 3"),
        ("it has eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl.", "it has (hidden)."),
        (f"{PEM} after", "(hidden) after"),
        (PEM.replace("\n", "\\n"), "(hidden)"),
        (PEM.partition("\n")[2].partition("\n")[0], "(hidden)"),
        ("it was an unusual value", "it was ${env.SETTING}"),
        ("/srv/ada/m.gguf /home/bob/m.gguf /Users/eve/m.gguf", "~/m.gguf ~/m.gguf ~/m.gguf"),
        ('"prompt_tokens": 20, tokens: 4, 14 tokens/s', '"prompt_tokens": 20, tokens: 4, 14 tokens/s'),
    ],
)
def test_a_text(text: str, masked: str) -> None:
    """Secrets are known by their value, their name or their form; figures stay."""
    assert MASK.text(text) == masked


def test_a_tree() -> None:
    """Names in it are masked like values, and numbers stay."""
    assert MASK.tree({"/srv/ada": ["the-key-of-ada", 7, None, True]}) == {"~": ["(hidden)", 7, None, True]}


@pytest.mark.parametrize(
    "said",
    [
        'request: {"messages": [{"role": "user", "content": "secret"}]}',
        "Received request chatcmpl-1: prompt: 'secret', params: x",
        "slot process_toke: n_gen = 4, next token: 700 ' secret'",
        "environ({'PATH': '/bin', 'A': 'secret'})",
        "SOMETHING=secret",
        r'body "{\"messages\":[{\"role\":\"user\",\"content\":\"secret\"}]}"',
        r'"{\\\"prompt\\\": \\\"secret\\\"}"',
        'obj=GenerateReqInput(rid="1", text="secret", stream=False)',
        "Request(user_prompt = 'secret')",
        "CompletionRequest(prompt=['secret'])",
        "ChatMessage(content=b'secret')",
        "EmbeddingRequest(Input: 'secret')",
        "formatted prompt: secret",
        r"<|im_start|>user\nsecret<|im_end|>",
        "[INST] secret [/INST]",
    ],
)
def test_a_line_of_a_model_server(said: str) -> None:
    """Contents of requests and environments are removed; the lines around them stay, as far as they are not long."""
    kept = MASK.output(f"{HEAD} before\n{HEAD} {said}\n{HEAD} after {'x' * 1000}").splitlines()

    assert (kept[0], len(kept), len(kept[2])) == (f"{HEAD} before", 3, 500)
    assert "secret" not in kept[1]


@pytest.mark.parametrize(
    "said",
    [
        "prompt eval time = 20.1 ms / 14 tokens",
        "request: prompt: None, prompt_token_ids: None",
        "context: 4096, n_prompt_tokens = 12",
        "slot update_slots: id 0 | task 3 | prompt done",
    ],
)
def test_a_line_without_contents(said: str) -> None:
    """Figures are what a report is for."""
    assert MASK.output(f"{HEAD} {said}") == f"{HEAD} {said}"


@pytest.mark.parametrize(
    "said", ["INFO audit actor=canary address=::1 action='load alpha'", "INFO API key created name=canary role=admin"]
)
def test_a_line_of_the_audit(said: str) -> None:
    """Who did what is nobody else's business."""
    assert "canary" not in MASK.output(f"{HEAD} {said}")


def test_a_private_key_of_several_lines() -> None:
    """Also one that is printed in a single long line."""
    lines = "\n".join(f"{HEAD} {line}" for line in [*PEM.splitlines(), PEM.replace("\n", "\\n") * 5, "after"])
    masked = MASK.output(lines)

    assert "canary" not in masked
    assert masked.endswith(" after")


def test_a_prompt_of_several_lines() -> None:
    """It is left out from the beginning of each message to its end; what comes after the prompt stays."""
    prompt = ("<|im_start|>user", "secret", "more secret<|im_end|>", "<|im_start|>assistant", "done")
    kept = MASK.output("\n".join(f"{HEAD} {line}" for line in prompt)).splitlines()

    assert "secret" not in str(kept)
    assert kept[-1] == f"{HEAD} done"


def test_a_tree_with_output_of_a_model_server() -> None:
    """An error of a model quotes the last lines of its server."""
    masked = MASK.tree({"last_error": "exit 1\ntext='secret'", "phase": "failed"}, MASK.output)

    assert "secret" not in str(masked)
    assert (masked["last_error"].splitlines()[0], masked["phase"]) == ("exit 1", "failed")
