#!/bin/sh
# Puts a real, prebuilt llama-server (from Debian's suite sid) with its own libc into DIR, on an older Debian.
# PACKAGE=whisper.cpp PROGRAM=whisper-server gets that server instead.
# Does not change the system's packages and apt lists. Does nothing if DIR already has a server that runs.
#
# usage: get_llama_server.sh DIR      about 20 MB down, 15 s; prints the version. SUITE=forky picks another suite.
set -eu

fail() { echo "get_llama_server.sh: $1" >&2; exit 1; }

[ $# -eq 1 ] || fail "usage: get_llama_server.sh DIR"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
suite=${SUITE:-sid}
package=${PACKAGE:-llama.cpp-tools}
program=${PROGRAM:-llama-server}
root=$dir/root
lib=$root/usr/lib/x86_64-linux-gnu

if version=$("$dir/$program" --version 2>&1); then
  echo "$version"
  exit 0
fi

elsewhere="install llama.cpp in another way and point HOTSEAT_LLAMA_SERVER at its llama-server"
[ "$(uname -m)" = x86_64 ] || fail "only x86_64 is packaged here, this is $(uname -m): $elsewhere"
command -v apt-get >/dev/null || fail "no apt-get here: $elsewhere"
. /etc/os-release
# Uses the archive in this machine's apt configuration; no package list needs to exist for that.
# Debian sid calls itself by the next release's name.
archive=$(apt-get update --print-uris | sed -nE "s#^'(.*)/dists/(${VERSION_CODENAME:-none}|$suite)/.*#\1#p" | head -n 1)
[ -n "$archive" ] || fail "apt knows no Debian archive for '${VERSION_CODENAME:-}': $elsewhere"

rm -rf "$root" "$dir/apt"
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$root"
: >"$dir/apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >"$dir/apt/sources.list"
private_apt() {
  apt-get -qq -o Acquire::Retries=3 -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$dir/apt/lists" -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
private_apt update || fail "cannot read the package lists of $suite from $archive"
private_apt install -y --download-only --no-install-recommends "$package" patchelf >/dev/null ||
  fail "cannot fetch $package of $suite from $archive"
for deb in "$dir"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
rm -rf "$dir/apt"

# A bundle that runs in place: its own loader and libraries, CPU backends next to the executable.
patch() {
  "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$root/usr/bin/patchelf" \
    --force-rpath --set-rpath "$lib:$lib/llama" "$@"
}
cp "$lib"/ggml/backends0/libggml-cpu-*.so "$dir/"
for so in "$lib"/llama/*.so "$lib"/libllama*.so.? "$lib"/libggml*.so.? "$dir"/*.so; do
  [ ! -e "$so" ] || patch "$so"
done
# The executable comes last and atomically: if it exists, so does everything it needs.
cp "$root/usr/bin/$program" "$dir/$program.new"
patch --set-interpreter "$lib/ld-linux-x86-64.so.2" "$dir/$program.new"
mv "$dir/$program.new" "$dir/$program"
"$dir/$program" --version 2>&1
