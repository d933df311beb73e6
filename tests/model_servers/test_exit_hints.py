"""What an operator is advised to do about a server that ended by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from hotseat.model_servers.launch_failures import KILLED, count_oom_kills, hint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("exit_status", "line", "advice"),
    [
        ("was terminated by SIGKILL", "", "memory ran out (see `dmesg`)"),
        ("exited with code 137", "", "memory ran out (see `dmesg`)"),
        ("was terminated by SIGILL", "", "a build for this CPU"),
        ("exited with code 127", "", "program or shared library is missing"),
        ("exited with code 1", "error: invalid argument: --ctx-sise", "does not accept an option of `cmd`"),
        ("exited with code 2", "vllm: error: unrecognized arguments: --tp 2", "does not accept an option of `cmd`"),
        ("exited with code 2", "error: unexpected argument '--tp' found", "does not accept an option of `cmd`"),
        ("exited with code 1", "llama-server: unrecognized option `--tp'", "does not accept an option of `cmd`"),
        ("exited with code 1", "server: invalid option -- 'x'", "does not accept an option of `cmd`"),
        ("exited with code 1", "gguf_init_from_file: failed to open GGUF file 'x.gguf'", "file that `cmd` names"),
        ("exited with code 1", "ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed", "ran out of memory"),
        ("was terminated by SIGABRT", "torch.OutOfMemoryError: CUDA out of memory.", "ran out of memory"),
        ("exited with code 127", "error while loading shared libraries: libcuda.so.1", "LD_LIBRARY_PATH"),
        ("exited with code 1", "couldn't bind HTTP server socket", "end that process, or"),
        (
            "exited with code 125",
            'Conflict. The container name "/qwen" is already in use by container "1f"',
            "docker rm",
        ),
        ("exited with code 125", "Bind for 0.0.0.0:5800 failed: port is already allocated", "end that process, or"),
        ("exited with code 125", "Cannot connect to the Docker daemon at unix:///run/docker.sock.", "start it"),
        ("exited with code 1", "permission denied while trying to connect to the Docker daemon socket", "start it"),
        (
            "exited with code 125",
            "pull access denied for qwen, repository does not exist",
            "pull or build",
        ),
        ("exited with code 125", "unknown flag: --gpuss", "could not start the container"),
    ],
)
def test_an_end_that_is_understood(exit_status: str, line: str, advice: str) -> None:
    """The exit status and the server's own words lead to one piece of advice."""
    assert advice in hint(exit_status, ["loading", line])


@pytest.mark.parametrize("exit_status", ["exited with code 1", "exited with code 0", "was terminated by SIGSEGV"])
def test_an_end_that_is_not_understood(exit_status: str) -> None:
    """No advice is better than a guess."""
    assert hint(exit_status, ["all is well", "mmap failed: Invalid argument"]) == ""


@pytest.mark.parametrize("words", ["container name ", "permission denied "])
def test_long_lines_are_searched_soon(words: str) -> None:
    """All requests wait meanwhile, and a server may write 256 KiB in one line, or long lines."""
    began = time.thread_time()
    for output in ([words * ((256 << 10) // len(words))], [words * ((12 << 10) // len(words))] * 20):
        assert hint("exited with code 1", output) == ""

    assert time.thread_time() - began < 0.5


def test_output_about_files_does_not_explain_a_later_crash() -> None:
    """A server that was ready had its files and its port; such a line may quote a request. Memory may still run out."""
    assert hint("was terminated by SIGSEGV", ["tool: no such file or directory"], was_ready=True) == ""
    assert "ran out of memory" in hint("was terminated by SIGABRT", ["CUDA out of memory."], was_ready=True)


def test_the_kernel_says_that_memory_ran_out() -> None:
    """A SIGKILL while the kernel killed processes for memory has that reason; another signal has not."""
    assert hint("was terminated by SIGKILL", [], oom_kills=1) == KILLED
    assert hint("was terminated by SIGSEGV", [], oom_kills=1) == ""


def test_no_advice_repeats_the_output() -> None:
    """Output may contain prompts, and the advice goes to clients."""
    assert "secret" not in hint("exited with code 1", ["error: unknown argument: secret"])


def test_the_kernels_count(tmp_path: Path) -> None:
    """It is read from vmstat; a kernel that has none counts as zero."""
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 5\noom_kill 3\nnr_x 1\n")

    assert count_oom_kills(vmstat) == 3
    assert count_oom_kills(tmp_path / "none") == 0
