"""Search for broken promises: `just fuzz [--minutes M] [TARGET…]`, every target for its share of the time.

Each target runs in a process of its own, because libFuzzer ends the one it runs in. What it learns goes to
.cache/fuzz, what breaks a promise is kept there too, and `--keep` adds the inputs that matter to the corpus of the
repository, which stays small: a few hundred short inputs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
LEARNED = Path(".cache/fuzz")
LONGEST = 2048
MOST_KEPT = 100
CHILD = "--as"
"""What follows is for the process that fuzzes."""
NAMES = ("naming", "bodies", "framing", "answers", "forms", "translation", "configuration")


def main() -> int:
    if sys.argv[1:2] == [CHILD]:
        return fuzz(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument("--minutes", type=float, default=5.0, help="for all targets together")
    parser.add_argument("--keep", action="store_true", help="copy what was learned into the repository's corpus")
    options = parser.parse_args()
    names = options.targets or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    found = [search(name, options.minutes * 60 / len(names), keep=options.keep) for name in names]
    return max(found)


def search(name: str, seconds: float, *, keep: bool) -> int:
    """Fuzz one target; a code other than 0 means that a promise was broken, and by which input is printed."""
    learned, corpus = LEARNED / name, CORPUS / name
    learned.mkdir(parents=True, exist_ok=True)
    print(f"== {name}", flush=True)
    code = run(name, f"-max_total_time={seconds:.0f}", str(learned), str(corpus))
    if keep:
        keep_short(learned, corpus)
    return code


def keep_short(learned: Path, corpus: Path) -> None:
    """libFuzzer keeps what reached new code, cut as short as it could; the shortest of that go into the repository."""
    for file in sorted(learned.iterdir(), key=lambda file: file.stat().st_size)[:MOST_KEPT]:
        shutil.copy(file, corpus / file.name[:12])


def run(name: str, *options: str) -> int:
    words = [
        f"-dict={HERE / 'words.dict'}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={LEARNED}/{name}-",
        "-print_final_stats=1",
        "-timeout=10",
        "-rss_limit_mb=2048",
    ]
    return subprocess.run([sys.executable, "-m", "tests.fuzz", CHILD, name, *words, *options]).returncode


def fuzz(name: str, options: list[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=["hotseat"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
