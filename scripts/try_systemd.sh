#!/bin/sh
# Tries the unit of `hotseat systemd install` with a real systemd, in a container with a Debian of its own.
# systemd at boot empties /tmp and more. It is started only as the first process of a pid namespace, in a root file
# system that this script has made, with a fresh /tmp and /run; no folder of the machine is mounted.
#
# usage: try_systemd.sh DIR      as root; DIR must not exist, and is removed after success. Needs podman, runc,
#                                debootstrap and `just setup`; 250 MB down, a few minutes.
set -eu

fail() { echo "try_systemd.sh: $1" >&2; exit 1; }

# In the container

is_ours() { [ -e /made-by-try_systemd ] && [ "${container:-}" = podman ]; }

boot() {
  is_ours && [ $$ -eq 1 ] && [ -z "$(ls -A /tmp)" ] || fail "this is not a container of try_systemd.sh"
  mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 /sys/fs/cgroup
  exec /sbin/init
}

main() { systemctl show -P MainPID hotseat; }
until_true() {
  for _ in $(seq 300); do if "$@"; then return; fi; sleep 0.1; done
  fail "never became true: $*"
}
is_kept() { [ "$(pgrep -x llama-server)" = "$kept" ] || fail "$1 did not keep the model server"; echo "ok: $1"; }
is_restarted() { [ "$(main)" != "$1" ] && systemctl -q is-active hotseat; }
restarted_after_crash() {
  before=$(main)
  kill -9 "$before"
  until_true is_restarted "$before"
}
client_stays() { sleep 60 | curl -s -T - http://localhost:8080/v1/chat/completions & }

check() {
  is_ours || fail "this is not a container of try_systemd.sh"
  PATH=/opt/hotseat/bin:$PATH
  until_true test -S /run/systemd/private
  SUDO_USER=llm hotseat systemd install --config /etc/hotseat.yaml
  systemctl daemon-reload
  systemctl start hotseat
  hotseat load alpha
  kept=$(pgrep -x llama-server)
  systemctl restart hotseat && is_kept "systemctl restart"
  systemctl reload hotseat && is_kept "systemctl reload"
  before=$(main)
  hotseat restart && is_kept "hotseat restart"
  is_restarted "$before" || fail "systemd does not follow a restart"
  restarted_after_crash && is_kept "a crash"
  client_stays
  sleep 1
  hotseat restart
  restarted_after_crash && is_kept "a crash while the process before still has a client"
  nsenter -t "$kept" -m -S "$(id -u llm)" touch /tmp/by-a-server || fail "a server that was kept has no /tmp"
  before=$(main)
  kill -9 "$kept"
  hotseat load alpha
  [ "$(main)" = "$before" ] || fail "the service has ended with a model server"
  echo "ok: the service outlives a model server"
  client_stays
  sleep 1
  hotseat restart
  systemctl stop hotseat
  ! pgrep -x llama-server || fail "a stop has left a model server behind"
  until_true test ! -e /sys/fs/cgroup/system.slice/hotseat.service  # the process before drains as long as the new one
  echo "ok: systemctl stop"
  ! journalctl -u hotseat | grep -E 'not our child|reception only permitted|with signal SIGKILL'
}

# On the machine

make_root() {
  debootstrap --foreign --variant=minbase --include=systemd,systemd-sysv,dbus,procps,curl,python3,python3-venv \
    bookworm "$root"
  if [ -L "$root/proc" ]; then rm "$root/proc" && mkdir "$root/proc"; fi  # debootstrap in a container links it
  touch "$root/made-by-try_systemd"
  cp "$0" "$root/try_systemd.sh"
  mkdir -p "$root/opt/wheels" "$root$llama"
  cp -a "$llama/." "$root$llama"
  cp "$models/alpha.gguf" "$root/opt"
  pip download -q --require-hashes -r requirements/runtime.txt -d "$dir/downloads"
  pip wheel -q --no-deps -w "$root/opt/wheels" "$dir"/downloads/* .
  echo "{crashGrace: 30s, models: {alpha: {cmd: '$llama/llama-server -m /opt/alpha.gguf --port \${PORT}'}}}" \
    >"$root/etc/hotseat.yaml"
}

engine() {  # vfs: the usual driver leaves a mount in DIR
  podman --runtime runc --storage-driver vfs --root "$dir/storage" --runroot "$dir/run" --tmpdir "$dir/tmp" \
    --cgroup-manager cgroupfs "$@"
}
in_root() {
  engine run --rootfs --network none --systemd=false --cgroupns=private --stop-signal SIGRTMIN+3 \
    --cap-add SYS_ADMIN,SYS_PTRACE,MKNOD --security-opt seccomp=unconfined \
    --ulimit nofile="$(ulimit -Hn):$(ulimit -Hn)" --ulimit nproc=4096:4096 \
    --env container=podman "$@"
}
clean_up() { engine rm -f -t 5 trial >/dev/null 2>&1 || true; }

case ${1:-} in
  boot) boot ;;
  check) check ;;
  /*)
    [ ! -e "$1" ] || fail "$1 exists"
    cd "$(dirname "$0")/.."
    dir=$1 root=$1/root llama=$(realpath .cache/llama-server) models=$(realpath .cache/models)
    mkdir "$dir"
    make_root
    in_root --rm "$root" /bin/sh -ec '/debootstrap/debootstrap --second-stage; useradd llm; python3 -m venv /opt/hotseat
      /opt/hotseat/bin/pip install -q --no-index --find-links /opt/wheels "hotseat[fleet]"'
    trap clean_up EXIT
    trap 'exit 1' INT TERM
    in_root -d --name trial --tmpfs /tmp --tmpfs /run "$root" /bin/sh /try_systemd.sh boot
    engine exec trial /bin/sh /try_systemd.sh check
    clean_up
    rm -rf --one-file-system "$dir" ;;
  *) fail "usage: try_systemd.sh DIR, an absolute path" ;;
esac
