#!/bin/sh
# Builds the image and runs it as compose.yaml does: as user 10001, on a read-only file system, without
# capabilities. The base is made here from Debian's packages, so no image is fetched; the container has no network.
#
# usage: try_image.sh DIR      as root; DIR must not exist, and is removed after success. Needs podman, runc, mmdebstrap
#                              and `just setup`; 250 MB down, a few minutes. BASE=FILE takes the base from an archive.
set -eu

fail() { echo "try_image.sh: $1" >&2; exit 1; }
ok() { echo "ok: $1"; }

case ${1:-} in /*) ;; *) fail "usage: try_image.sh DIR, an absolute path" ;; esac
[ ! -e "$1" ] || fail "$1 exists"
cd "$(dirname "$0")/.."
dir=$1 models=$(realpath .cache/models)
mkdir -p "$dir/config"
dir=$(realpath "$dir")

export CONTAINERS_CONF="$dir/containers.conf"
cat >"$CONTAINERS_CONF" <<END
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "$dir/tmp"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
END
engine() {  # without skip_mount_home a mount would stay in DIR
  podman --storage-driver overlay --storage-opt overlay.skip_mount_home=true \
    --root "$dir/storage" --runroot "$dir/run" "$@"
}

# Debian's testing suite is served by mirrors that lag behind, too.
make_base() {
  mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' forky "$dir/base.tar"
}

# The package ca-certificates adds the authorities of this machine, for a network whose proxy has one of its own.
build() {
  engine import "${BASE:-$dir/base.tar}" debian:forky-slim >/dev/null
  engine build --quiet --format docker --network host --tag hotseat \
    --volume /etc/ssl/certs/ca-certificates.crt:/usr/local/share/ca-certificates/of-this-machine.crt:ro . >/dev/null
}

start() {
  engine run --detach --name trial --network none --read-only --tmpfs /tmp --cap-drop ALL \
    --security-opt no-new-privileges --volume "$dir/config:/etc/hotseat:ro" --volume "$models:/models:ro" \
    --volume state:/var/lib/hotseat hotseat \
    serve --config /etc/hotseat/config.yaml --listen 0.0.0.0:8080 --allow-open >/dev/null
}
inside() { engine exec trial "$@"; }
ask() { inside curl -sS --fail-with-body --max-time 60 "http://127.0.0.1:8080$1" -d "$2"; }
until_true() {
  for _ in $(seq 300); do if "$@"; then return; fi; sleep 0.1; done
  fail "never became true: $*"
}
is_ready() { inside curl -sf -o /dev/null http://127.0.0.1:8080/hotseat/ready 2>/dev/null; }
clean_up() { engine rm --force --time 5 trial >/dev/null 2>&1 || true; }
give_up() { engine logs trial 2>&1 || true; clean_up; }

cat >"$dir/config/config.yaml" <<'END'
models:
  alpha:
    cmd: llama-server -m /models/alpha.gguf --port ${PORT} -c 2048 -t 1 -tb 1
END

[ -n "${BASE:-}" ] || make_base
build
bytes=$(engine image inspect --format '{{.Size}}' hotseat)
ok "the image is built: $((bytes / 1000000)) MB, $(engine run --rm --network none hotseat --version)"
trap give_up EXIT
trap 'exit 1' INT TERM
start
until_true is_ready
[ "$(inside id -u)" = 10001 ] || fail "hotseat runs as user $(inside id -u)"
! inside touch /opt/hotseat/file 2>/dev/null || fail "the file system is writable"
state=$(inside stat -c '%a %u' /var/lib/hotseat)
[ "$state" = "700 10001" ] || fail "mode and owner of the state are $state"
ok "it runs as user 10001 on a read-only file system, with a state that only it can read"
ask /v1/chat/completions '{"model": "alpha", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}' |
  grep -q '"completion_tokens":4' || fail "no answer"
ok "it loads a model and answers"
engine healthcheck run trial >/dev/null || fail "the health check fails"
ok "its health check passes"
engine stop --time 60 trial >/dev/null
[ "$(engine inspect --format '{{.State.ExitCode}}' trial)" = 0 ] || fail "it does not end by itself on SIGTERM"
ok "it stops on SIGTERM"
trap - EXIT
clean_up
rm -rf --one-file-system "$dir"
