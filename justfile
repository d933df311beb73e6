# The whole day: `just setup` once, then `just check`, `just test`, and `just all` before you push.

set shell := ["bash", "-euo", "pipefail", "-c"]
set positional-arguments

venv := ".venv"
code := "src tests bench scripts clients"
export PATH := justfile_directory() / venv / "bin:" + env("PATH")

# what there is to do
default:
    @just --list --unsorted

# install everything a day's work needs
setup: && llama node-clients dashboard-packages
    test -d {{ venv }} || python3 -m venv {{ venv }}
    pip install -q --require-hashes -r requirements/dev.txt
    pip install -q --no-deps --editable .

# a real llama-server and the three tiny models, once, into .cache
llama *options:
    scripts/get_llama_server.sh .cache/llama-server
    python scripts/make_gguf.py "$@"

# lint, format, types, layers, weaknesses
check:
    ruff check {{ code }}
    ruff format --check {{ code }}
    mypy
    npm run --silent --prefix dashboard check
    lint-imports
    bandit --quiet --recursive --configfile pyproject.toml src
    hadolint Dockerfile

# every test but the big model's
test *options:
    pytest -n 2 -m "not big" "$@"

# long searches, all journeys, the 1.6 GB model
deep: (llama "--big")
    HYPOTHESIS_PROFILE=deep pytest -n 2 -m "not big" --timeout 0
    pytest -m big --timeout 300

# the HTTP contract, from the outside
conformance *options:
    python tests/conformance/conform.py "$@"

# all tests, measured; fails below the promised figures
coverage:
    coverage erase
    mkdir -p .cache
    coverage run -m pytest -n 3 --dist worksteal -m "not big" | tee .cache/pytest.txt
    coverage combine -q
    scripts/check_coverage.sh

# every client that people use, against hotseat; writes docs/reference/clients.md
clients *names: node-clients
    python -m clients {{ names }}

# the packages of the clients that run on Node.js
node-clients:
    npm ci --silent --prefix clients/node

# build the dashboard into the package; `just dashboard --watch` builds at each change
dashboard *options: dashboard-packages
    node dashboard/build.mjs "$@"

# the packages that the dashboard is made of
dashboard-packages:
    npm ci --silent --prefix dashboard

# every page of the dashboard, light and dark, into docs/screenshots
screenshots:
    python -m scripts.make_screenshots

# where the time of a swap goes, beside the bare engine
bench-swap *options:
    python -m bench.swap "$@"

# a sleep beside a restart, with a real llama-server
bench-sleep *options:
    python -m bench.sleep "$@"

# the relay's cost beside nginx, HAProxy, Go and aiohttp
bench-relay *options:
    python -m bench.relay "$@"

# what models will need, guessed and weighed
bench-estimates *options:
    python -m bench.estimates "$@"

# models side by side as memory allows, and one at a time, with real servers
bench-room *options:
    python -m bench.room "$@"

# who runs and who waits: the scheduler beside the rules of others, on a virtual clock
bench-scheduling *options:
    python -m bench.scheduling "$@"

# what agreement between hosts costs, on three NATS servers
bench-fleet *options:
    python -m bench.fleet "$@"

# a thousand hosts on a virtual clock: [--hosts N] [--models N] [--requests N] [--seed N] [--write]
simulate-fleet *options:
    python -m bench.fleet_simulation "$@"

# everything goes wrong at once, for minutes: [--fleet [HOSTS]] [--seed N] [--minutes M] [--requests N]
chaos *options:
    python -m bench.chaos "$@"

# an hour of mixed company on a real llama-server: nothing grows, nobody waits longer
soak *options:
    python -m bench.soak "$@"

# every role, path, method and way to name a model, judged by the documentation: [--each N] [--seed N]
roles *options:
    python -m tests.support.role_matrix "$@"

# what `just fuzz` and `just audit` need beyond the rest
searchers:
    uv pip install -q --require-hashes -r requirements/fuzz.txt

# search for inputs that break a promise of the parsers: [--minutes M] [TARGET…] [--keep]
fuzz *options: searchers
    nice -n 15 python -m tests.fuzz "$@"

# known weaknesses of what is installed with hotseat; asks the internet, so it is no part of `just check`
audit: searchers
    pip-audit --strict --disable-pip --require-hashes -r requirements/runtime.txt

# regenerate the pages that are made from the code
docs:
    python scripts/make_docs.py

# the documentation as a site, into build/site/html
site:
    uv venv --quiet --allow-existing .cache/docs-venv
    uv pip sync --quiet --python .cache/docs-venv/bin/python --require-hashes requirements/docs.txt
    python scripts/make_site.py .cache/docs-venv/bin/zensical

# the configuration's JSON schema
schema:
    hotseat schema

# resolve the dependencies anew
lock:
    uv pip compile pyproject.toml --universal --extra fleet --generate-hashes -o requirements/runtime.txt
    uv pip compile pyproject.toml --universal --group dev --generate-hashes -o requirements/dev.txt
    uv pip compile pyproject.toml --universal --group fuzz -c requirements/dev.txt --python-version 3.11 --generate-hashes -o requirements/fuzz.txt
    uv pip compile --universal --group docs --generate-hashes -o requirements/docs.txt

# exactly what CI runs
all:
    bash .ci/run
