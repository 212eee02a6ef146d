#!/bin/sh
# without_plugins_test.sh ROOT CMAKE TORCH: a copy of ROOT without plugins/ configures, with the tests and
# without them, and offers the host program.
set -eu
root=$1
cmake=$2
torch=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/tree"
for part in CMakeLists.txt cmake host python sdk bench tests; do
  cp -r "$root/$part" "$work/tree"
done
[ ! -e "$work/tree/plugins" ] || { echo "FAIL: the copy holds plugins/"; exit 1; }

# configure TESTS: configures with MNEME_TESTS=TESTS and looks for the program among the targets. In one folder, whose
# compilers are asked once.
build=$work/build
configure() {
  if ! "$cmake" -S "$work/tree" -B "$build" -G Ninja -DMNEME_TESTS="$1" -DMNEME_CUDA=OFF -DMNEME_TORCH="$torch" \
      >"$work/log" 2>&1; then
    cat "$work/log"
    echo "FAIL: with MNEME_TESTS=$1 the tree without plugins/ does not configure"
    exit 1
  fi
  grep -q '^build bin/mneme: ' "$build/build.ninja" || { echo "FAIL: no target makes bin/mneme"; exit 1; }
  if grep -q '^build plugins/' "$build/build.ninja"; then echo "FAIL: something still builds plugins/"; exit 1; fi
  echo "ok: configures without plugins/, MNEME_TESTS=$1"
}

configure OFF
configure ON
