#!/usr/bin/env bash
# Writes down the C headers as they are now as one version of the ABI, to which all later headers are held.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/freeze_abi.sh VERSION [--force] [--headers DIR] [--output DIR]

Makes sdk/abi/VERSION from sdk/include/mneme. VERSION is the one in mneme/abi.h, such as 0.3.

  mneme/*.h       the headers
  layout.c        assertions on sizes, offsets, types and values (scripts/abi_layout.py)
  type_probe.c    a library that uses every public type, for abidiff
  plugin.c        tests/abi/compatibility/plugin.c as it is now
  plugin.so       a build of it for x86-64 Linux, which needs libc of glibc 2.28 or newer and nothing else
  plugin.numbers  what it computes in the mini host of tests/abi/compatibility, built with these headers
  SHA256SUMS      of all of them

A version that was released is never written again.

  --force        write a version again that exists: only before it is released
  --headers DIR  another folder with mneme/*.h
  --output DIR   another folder for the versions

Needs gcc or clang, clang, python3 and binutils, on x86-64.
TEXT
}

version=
force=no
headers=$root/sdk/include
output=$root/sdk/abi
while (($#)); do
  case $1 in
    --force) force=yes ;;
    --headers | --output)
      (($# >= 2)) || fail "$1 needs a folder"
      if [[ $1 == --headers ]]; then headers=$(realpath -m "$2"); else output=$(realpath -m "$2"); fi
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      [[ -z $version && $1 =~ ^[0-9]+\.[0-9]+$ ]] ||
        fail "not understood: '$1'; expected a version such as 0.3, and options as --help says"
      version=$1
      ;;
  esac
  shift
done
[[ -n $version ]] || fail "no version was given; expected scripts/freeze_abi.sh VERSION, such as 0.3"
[[ -f $headers/mneme/abi.h ]] || fail "$headers holds no mneme/abi.h: expected the folder of the C headers"

# shellcheck source=tests/abi/compatibility/build.sh
source "$root/tests/abi/compatibility/build.sh"
read -r major minor <<<"$(abi_version_of "$headers")"
[[ $version == "$major.$minor" ]] ||
  fail "the headers are those of ABI $major.$minor, not of $version: set MNEME_ABI_MAJOR and MNEME_ABI_MINOR in mneme/abi.h first"
if [[ -e $output/$version && $force == no ]]; then
  fail "$output/$version exists: a released version is never written again; before its release use --force"
fi
for program in clang python3 readelf sha256sum; do
  command -v "$program" >/dev/null || fail "$program was not found; scripts/setup.sh installs it"
done
[[ $(uname -m) == x86_64 ]] || fail "this machine is a $(uname -m): expected x86_64, for which plugin.so is built"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/frozen/mneme" "$work/again"
cp "$headers"/mneme/*.h "$work/frozen/mneme/"
cp tests/abi/compatibility/plugin.c "$work/frozen/"
python3 -B scripts/abi_layout.py "$work/frozen" "$work/frozen"
clang -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$work/frozen" "$work/frozen/layout.c" ||
  fail "layout.c does not compile with the headers that it was made from: an error of scripts/abi_layout.py"

build_plugin "$work/frozen/plugin.c" "$work/frozen" "$work/frozen/plugin.so" ||
  fail "tests/abi/compatibility/plugin.c does not compile with these headers (the compiler's message is above)"
cp "$work/frozen/plugin.c" "$work/again/"
build_plugin "$work/again/plugin.c" "$work/frozen" "$work/again/plugin.so"
cmp -s "$work/frozen/plugin.so" "$work/again/plugin.so" || fail "two builds of plugin.so differ: expected the same bytes"
beyond=$(needs_beyond "$work/frozen/plugin.so")
[[ -z $beyond ]] || fail "plugin.so needs ${beyond//$'\n'/, }: expected libc.so.6 with symbols of glibc 2.28 or older alone"

build_mini_host "$work/frozen" "$work/mini_host" ||
  fail "the mini host of tests/abi/compatibility does not compile with these headers (the compiler's message is above)"
"$work/mini_host" "$work/frozen/plugin.so" >"$work/frozen/plugin.numbers" || fail "the mini host cannot run plugin.so"

(cd "$work/frozen" && sha256sum mneme/*.h layout.c plugin.c plugin.numbers plugin.so type_probe.c >SHA256SUMS)
mkdir -p "$output"
rm -rf "${output:?}/$version"
mv "$work/frozen" "$output/$version"
chmod 755 "$output/$version"
say "wrote $output/$version: $(find "$output/$version/mneme" -name '*.h' | wc -l) headers, plugin.so of $(wc -c <"$output/$version/plugin.so") bytes"
