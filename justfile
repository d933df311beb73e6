# Development commands: `just setup` once, then `just check`, `just test`, and `just all` before you push.

set shell := ["bash", "-euo", "pipefail", "-c"]
set positional-arguments

venv := ".venv"
code := "src tests bench scripts clients"
dist := "dist"
workers := "-n 4 --dist worksteal"
slow_folders := "--ignore=tests/" + replace("journeys dashboard browsers clients documentation packaging", " ", " --ignore=tests/")
counted := "tests/" + replace("catalog estimates fleet memory model_servers ollama relay scheduling simulation tracing", " ", " tests/")
export PATH := justfile_directory() / venv / "bin:" + env("PATH")

# list all commands
default:
    @just --list --unsorted

# install everything for development
setup: && llama node-clients dashboard-packages
    test -d {{ venv }} || python3 -m venv {{ venv }}
    pip install -q --require-hashes -r requirements/dev.txt
    pip install -q --no-deps --editable .

# fetch a real llama-server and make the three tiny models in .cache, unless they exist
llama *options:
    scripts/get_llama_server.sh .cache/llama-server
    python scripts/make_gguf.py "$@"

# fetch a real whisper-server and make a model for it in .cache, unless they exist
whisper:
    PACKAGE=whisper.cpp PROGRAM=whisper-server scripts/get_llama_server.sh .cache/whisper-server
    python scripts/make_whisper.py .cache/whisper-server/random.bin

# linter with security checks, formatter, types, import contracts
check:
    ruff check {{ code }}
    ruff format --check {{ code }}
    mypy
    npm run --silent --prefix dashboard check
    lint-imports

# the everyday tests: all that start neither the installed program nor a browser; with paths or names, those
test *options:
    pytest {{ workers }} -m "not (big or deep)" {{ slow_folders }} "$@"

# all tests that every commit must pass; .cache/pytest.txt shows how far they are
test-all *options:
    mkdir -p .cache
    pytest {{ workers }} -m "not (big or deep)" --junit-xml .cache/tests.xml "$@" | tee .cache/pytest.txt

# what a release must pass too: coverage, long searches, planted bugs, both event loops, the 1.6 GB model, whisper-server
deep: coverage (llama "--big") whisper
    HYPOTHESIS_PROFILE=deep pytest {{ workers }} -m "(deep or longer or hypothesis) and not big" --timeout 0
    pytest -m big --timeout 300

# where the time of `just test-all` went: [REPORT]
test-times report=".cache/tests.xml":
    python scripts/test_times.py {{ report }}

# how many files, lines and functions there are, and words of documentation: [--against REVISION]
size *options:
    python scripts/size.py "$@"

# make what every worker of a run would otherwise make: pytest's bytecode, and Hypothesis' tables of characters
prepare-tests: llama
    pytest --collect-only -qq >/dev/null
    python -c 'from hypothesis import find, strategies; find(strategies.text(), bool)'

# check the HTTP contract from the outside
conformance *options:
    python tests/conformance/conform.py "$@"

# the tests of the packages with a guaranteed coverage; fails below it
coverage:
    coverage erase
    coverage run -m pytest {{ workers }} -m "not (big or deep)" {{ counted }}
    coverage combine -q
    scripts/check_coverage.sh

# run popular clients against hotseat; writes docs/reference/clients.md
clients *names: node-clients
    python -m clients {{ names }}

# how long clients and agents ask for a model that cannot start (15 minutes); writes docs/reference/retries.md
retries *names: node-clients
    python -m clients.retries "$@"

# run whole applications against hotseat (3 GB); writes docs/reference/applications.md
applications *names:
    python -m clients.applications "$@"

# install the packages of the clients that run on Node.js
node-clients:
    npm ci --silent --prefix clients/node

# build the dashboard into the package; `just dashboard --watch` builds at each change
dashboard *options: dashboard-packages
    node dashboard/build.mjs "$@"

# install the dashboard's packages
dashboard-packages:
    npm ci --silent --prefix dashboard

# take screenshots of every dashboard page, light and dark, into docs/screenshots
screenshots:
    python -m scripts.make_screenshots

# take the picture of a trace in Phoenix (600 MB of packages, by hand only) into docs/screenshots
trace-picture:
    uv venv --quiet --allow-existing .cache/phoenix-venv
    uv pip install --quiet --python .cache/phoenix-venv/bin/python arize-phoenix==20.26.1
    python -m scripts.make_trace_picture .cache/phoenix-venv/bin/phoenix

# time of each part of a swap, compared with the bare engine
bench-swap *options:
    python -m bench.swap "$@"

# time until `hotseat serve` listens and answers, compared with an earlier revision: [--earlier REVISION] [--rounds N] [--write]
bench-start *options:
    python -m bench.start "$@"

# sleep compared with restart, with a real llama-server
bench-sleep *options:
    python -m bench.sleep "$@"

# conversations that are saved at a swap, compared with those that are computed again
bench-conversations *options:
    python -m bench.conversations "$@"

# cost of the relay, compared with nginx, HAProxy, Go and aiohttp
bench-relay *options:
    python -m bench.relay "$@"

# estimated and measured memory of models
bench-estimates *options:
    python -m bench.estimates "$@"

# models side by side as memory allows, compared with one at a time, with real servers
bench-memory *options:
    python -m bench.memory "$@"

# the scheduler compared with other policies, on a virtual clock
bench-scheduling *options:
    python -m bench.scheduling "$@"

# what a fleet costs and where it places requests: agreement | size | simulation, each with --help
bench-fleet *options:
    python -m bench.fleet "$@"

# simulate fleets with faults on a virtual clock: [--seeds N] [--first SEED] [--fault NAME …] [--log]
simulate-faults *options:
    python -m bench.fleet_faults "$@"

# inject many faults at once, for minutes: [--fleet [HOSTS] [--namespaces]] [--conversations] [--restarts N [--light]] [--crashes N [--grace TIME]] [--seed N] [--minutes M] [--requests N]
chaos *options:
    python -m bench.chaos "$@"

# run the quick half of the tests, or what CI runs, with other Pythons, in a folder that is kept: [--all] [SUITE|SUITE:PYTHON|PYTHON…]
pythons folder *options:
    scripts/try_pythons.sh "$@"

# try the unit of `hotseat systemd install` with a real systemd in a container; as root, in a folder that does not exist yet
try-systemd folder:
    scripts/try_systemd.sh "$1"

# build the image with podman and try it without root on a read-only file system; as root, in a folder that does not exist yet
try-image folder:
    scripts/try_image.sh "$1"

# stored usage compared with what clients received, with kill -9 in between: [--requests N] [--kills N] [--seed N]
bench-usage *options:
    python -m bench.usage "$@"

# soak test: an hour of mixed load on a real llama-server; memory and waiting times must not grow
soak *options:
    python -m bench.soak "$@"

# check every role, path, method and way to name a model against the documentation: [--each N] [--seed N]
roles *options:
    python -m tests.support.role_matrix "$@"

# install what `just fuzz` and `just audit` need
searchers:
    uv pip install -q --require-hashes -r requirements/fuzz.txt

# fuzz the parsers: [--minutes M] [TARGET…] [--keep]
fuzz *options: searchers
    nice -n 15 python -m tests.fuzz "$@"

# known vulnerabilities of hotseat's dependencies; needs the internet, so it is not part of `just check`
audit: searchers
    pip-audit --strict --disable-pip --require-hashes -r requirements/runtime.txt

# build the wheel, the source package, their bill of materials and their checksums into dist
dist:
    rm -rf "{{ dist }}"
    env -u SOURCE_DATE_EPOCH hatchling build -d "{{ dist }}"
    python -m scripts.make_sbom "{{ dist }}"
    cd "{{ dist }}" && sha256sum -- * > SHA256SUMS

# print what the changelog says about a release, if TAG is its version: TAG [ADDRESS-BEFORE-LINKS]
release-notes tag *base:
    @python -m scripts.release_notes "$@"

# regenerate the pages that are made from the code
docs:
    python scripts/make_docs.py

# build the documentation website into build/site/html
site:
    uv venv --quiet --allow-existing .cache/docs-venv
    uv pip sync --quiet --python .cache/docs-venv/bin/python --require-hashes requirements/docs.txt
    python scripts/make_site.py .cache/docs-venv/bin/zensical

# resolve the dependencies again
lock:
    uv pip compile pyproject.toml --universal --extra fleet --extra otel --generate-hashes -o requirements/runtime.txt
    uv pip compile pyproject.toml --universal --group dev --generate-hashes -o requirements/dev.txt
    uv pip compile pyproject.toml --universal --group fuzz -c requirements/dev.txt --python-version 3.11 --generate-hashes -o requirements/fuzz.txt
    uv pip compile --universal --group docs --generate-hashes -o requirements/docs.txt
    echo uv | uv pip compile - -c requirements/dev.txt --universal --generate-hashes -o requirements/uv.txt

# run exactly what CI runs
all:
    bash .ci/run
