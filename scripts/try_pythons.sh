#!/bin/sh
# Runs tests of HEAD with other Pythons: with that of a Debian suite in a Debian of its own, or with one of this machine.
# By default this is the quick half; the rest needs a browser, containers, a llama-server and more. --all runs .ci/run.
#
# usage: try_pythons.sh DIR [--all] [SUITE|SUITE:PYTHON|PYTHON…]
#   SUITE          such as trixie (Python 3.13) or sid (3.14), the defaults; as root, with mmdebstrap. 1 GB, with --all 4 GB
#   SUITE:PYTHON   another Python of a suite, such as sid:python3.15; not with --all
#   PYTHON         a program whose name contains python, such as python3.12; not with --all
# DIR has a folder for each, which is kept and used again.
set -eu

fail() { echo "try_pythons.sh: $1" >&2; exit 1; }

[ $# -ge 1 ] || fail "usage: try_pythons.sh DIR [--all] [SUITE|SUITE:PYTHON|PYTHON…]"
repository=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift

make_root() {
  command -v mmdebstrap >/dev/null || fail "apt-get install mmdebstrap"
  archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian$' | head -n 1)
  [ -n "$archive" ] || fail "apt knows no Debian archive"
  build=""  # PyYAML may have no wheel yet for a Python that is newer than the suite's own
  [ "$2" = python3 ] || build=,$2-dev,gcc,libc6-dev,libyaml-dev
  mmdebstrap --quiet --variant=minbase --aptopt="$(apt-config dump Acquire::Check-Valid-Until)" \
    --include="$2-venv$build,ca-certificates,procps,git,openssl,nginx-light,haproxy,prometheus,slowhttptest,systemd" \
    "$1" "$root" "$archive"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"  # a machine's own authorities too
}

# Mounts and processes end with it. In a chroot containers could not start, so this changes the root of the mounts.
in_root() {
  touch "$root/etc/resolv.conf"
  unshare --mount --pid --fork --kill-child sh -ec '
    root=$1; shift
    mount --bind "$root" "$root"
    cd "$root"
    mount --rbind /dev dev
    mount --rbind /sys sys
    mount -t proc proc proc
    mount --bind /etc/resolv.conf etc/resolv.conf
    pivot_root . mnt
    umount -l /mnt
    cd /src
    exec env PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 "$@"' sh "$root" "$@"
}

fetch_sources() {
  git init -q "$1"
  git -C "$1" fetch -q --update-shallow "$repository" HEAD
  git -C "$1" checkout -q --force --detach FETCH_HEAD
  git -C "$1" clean -ffdqx -e /.cache
}

others='bench|browsers|clients|conformance|dashboard|documentation|fuzz|journeys|packaging|support'
quick_half="python=\$1 others='$others'"'
  venv=$PWD/.cache/venv
  wanted=$("$python" -V; cat requirements/dev.txt)
  [ "$(cat "$venv/installed.txt" 2>&1)" = "$wanted" ] || {
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install -q --require-hashes -r requirements/dev.txt
    echo "$wanted" >"$venv/installed.txt"
  }
  export PATH=$venv/bin:$PATH
  pip install -q --no-deps --no-build-isolation --force-reinstall .
  python -V
  pytest -q -n 2 -m "not (big or deep or llama)" $(ls -d tests/test_*.py tests/*/ | grep -vE "$others")'

tests=$quick_half
[ "${1:-}" != --all ] || { tests='exec bash .ci/run'; shift; }
[ $# -gt 0 ] || set -- trixie sid

with_suite() {
  root=$dir/$(echo "$name" | tr : -)  # apt checks no signatures in a folder whose name has a colon
  [ -e "$root/etc/debian_version" ] || make_root "$1" "$2"
  fetch_sources "$root/src"
  in_root sh -ec "$tests" sh "$2"
}

with_program() {
  src=$dir/${1##*/}/src
  fetch_sources "$src"
  program=$(command -v "$1") || fail "there is no $1"
  program=$(realpath --no-symlinks "$program")
  (cd "$src" && sh -ec "$tests" sh "$program")
}

for name; do
  case $name in
    *python*) [ "$tests" = "$quick_half" ] || fail "--all needs a Debian suite alone, not $name" ;;
  esac
  case $name in
    *:*) with_suite "${name%%:*}" "${name#*:}" ;;
    *python*) with_program "$name" ;;
    *) with_suite "$name" python3 ;;
  esac
done
