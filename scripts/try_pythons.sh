#!/bin/sh
# Runs the quick half of the tests of HEAD with the Python of each Debian suite, each in a Debian of its own.
# The rest needs a browser, containers, a llama-server or the repository itself: `just test` runs it.
#
# usage: try_pythons.sh DIR [SUITE…]   as root, by default with trixie (Python 3.13) and sid (3.14). Needs mmdebstrap;
#                                      1 GB each; 10 minutes on a quiet machine. DIR/SUITE is kept, and used again.
set -eu

fail() { echo "try_pythons.sh: $1" >&2; exit 1; }

[ $# -ge 1 ] || fail "usage: try_pythons.sh DIR [SUITE…]"
command -v mmdebstrap >/dev/null || fail "apt-get install mmdebstrap"
repository=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- trixie sid
archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian$' | head -n 1)
[ -n "$archive" ] || fail "apt knows no Debian archive"

make_root() {
  mmdebstrap --quiet --variant=minbase --aptopt="$(apt-config dump Acquire::Check-Valid-Until)" \
    --include=python3-venv,ca-certificates,procps,git,openssl,nginx-light,haproxy,prometheus,slowhttptest,systemd \
    "$1" "$root" "$archive"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"  # a machine's own authorities too
}

# Mounts and processes end with it.
in_root() {
  unshare --mount --pid --fork --kill-child sh -ec '
    root=$1; shift
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    touch "$root/etc/resolv.conf"
    mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
    exec chroot "$root" "$@"' sh "$root" "$@"
}

others='bench|browsers|clients|conformance|dashboard|documentation|fuzz|journeys|packaging|support'
install_packages='
  python3 -m venv /opt/venv
  /opt/venv/bin/pip install -q --require-hashes -r /src/requirements/dev.txt'
run_tests="others='$others'"'
  cd /src
  mkdir -p .cache
  export PATH=/opt/venv/bin:$PATH HOME=/root LANG=C.UTF-8
  pip install -q --no-deps --no-build-isolation .
  python -V
  pytest -q -n 2 -m "not big and not llama" $(ls -d tests/test_*.py tests/*/ | grep -vE "$others")'

for suite; do
  root=$dir/$suite
  [ -e "$root/etc/debian_version" ] || make_root "$suite"
  rm -rf "$root/src" && mkdir "$root/src"
  git -C "$repository" archive HEAD | tar -x -C "$root/src"
  cmp -s "$root/src/requirements/dev.txt" "$root/opt/dev.txt" || {
    in_root sh -ec "$install_packages"
    cp "$root/src/requirements/dev.txt" "$root/opt/dev.txt"
  }
  in_root sh -ec "$run_tests"
done
