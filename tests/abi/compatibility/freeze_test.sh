#!/bin/sh
# freeze_test.sh ROOT: scripts/freeze_abi.sh refuses what it has to, writes what is checked in, and a line of releases,
# made in a temporary folder, holds the gates.
set -eu
root=$1
here=$root/tests/abi/compatibility
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$(uname -m)" != x86_64 ]; then
  echo "skipped: scripts/freeze_abi.sh builds for x86-64, and this is $(uname -m)"
  exit 77
fi
for program in clang python3 readelf; do
  command -v "$program" >/dev/null || { echo "skipped: no $program was found"; exit 77; }
done

die() {
  echo "FAIL: $*"
  exit 1
}

freeze() {
  bash "$root/scripts/freeze_abi.sh" "$@" --output "$work/tree/sdk/abi"
}

# expect_failure WORDS COMMAND...
expect_failure() {
  words=$1
  shift
  if "$@" >"$work/out" 2>&1; then die "succeeded, expected '$words': $*"; fi
  grep -qF -e "$words" "$work/out" || die "no '$words' in the output of $*: $(cat "$work/out")"
}

# expect_success COMMAND...
expect_success() {
  "$@" >"$work/out" 2>&1 || die "$*: $(cat "$work/out")"
}

# set_version MAJOR MINOR: of the headers in $work/include.
set_version() {
  sed -E -i "s/^#define MNEME_ABI_MAJOR [0-9]+u/#define MNEME_ABI_MAJOR $1u/; s/^#define MNEME_ABI_MINOR [0-9]+u/#define MNEME_ABI_MINOR $2u/" \
    "$work/include/mneme/abi.h"
}

# change_header HEADER EXPRESSION: sed, which must change something.
change_header() {
  cp "$work/include/mneme/$1" "$work/before"
  sed -i "$2" "$work/include/mneme/$1"
  ! cmp -s "$work/before" "$work/include/mneme/$1" || die "'$2' changes nothing in $1"
}

gate() {
  sh "$here/gates.sh" "$1" "$work/tree" "$work/include"
}

# A tree with versions of its own.
mkdir -p "$work/tree/sdk" "$work/tree/tests" "$work/include"
ln -s "$root/sdk/cmake" "$work/tree/sdk/cmake"
ln -s "$root/tests/abi" "$work/tree/tests/abi"
cp -r "$root/sdk/include/mneme" "$work/include/mneme"

# ---- wrong use ----
# shellcheck disable=SC2046
set -- $(sed -nE 's/^#define MNEME_ABI_(MAJOR|MINOR) ([0-9]+)u$/\2/p' "$root/sdk/include/mneme/abi.h")
version=$1.$2
expect_failure 'no version was given' freeze
expect_failure "not understood: 'v1'" freeze v1
expect_failure "the headers are those of ABI $version, not of 7.9" freeze 7.9
expect_failure 'holds no mneme/abi.h' freeze "$version" --headers "$work/nothing"
expect_failure '--headers needs a folder' bash "$root/scripts/freeze_abi.sh" "$version" --headers
expect_failure 'exists: a released version is never written again' bash "$root/scripts/freeze_abi.sh" "$version"
mkdir -p "$work/empty/mneme"
printf '#define MNEME_ABI_MAJOR %su\n#define MNEME_ABI_MINOR %su\n' "$1" "$2" >"$work/empty/mneme/abi.h"
: >"$work/empty/mneme/plugin.h"
expect_failure 'declares no struct or no function' freeze "$version" --headers "$work/empty"
printf '#include "mneme/missing.h"\n' >"$work/empty/mneme/plugin.h"
expect_failure 'expected headers that clang compiles as C11' freeze "$version" --headers "$work/empty"

# expect_refused_header WORDS HEADER EXPRESSION
expect_refused_header() {
  cp "$work/include/mneme/$2" "$work/kept"
  change_header "$2" "$3"
  expect_failure "$1" python3 -B "$root/scripts/abi_layout.py" "$work/include" "$work"
  cp "$work/kept" "$work/include/mneme/$2"
}
expect_refused_header 'mneme_riders has a bit-field' plugin.h 's|^  int64_t unseen;|  int64_t unseen : 7;|'
expect_refused_header 'the macro MNEME_ADDED takes arguments' log.h 's|^#define MNEME_GROUP_LOG .*|&\n#define MNEME_ADDED(x) (x)|'
expect_refused_header 'abi.h does not say which structs' abi.h 's|lie in plain arrays|lie in arrays|'
expect_refused_header 'mneme_absorb.segment holds a mneme_segment, which may grow' plugin.h \
  '/^typedef struct mneme_absorb /,/^}/s|const mneme_segment\* segment;|mneme_segment segment;|'
cat >"$work/other.c" <<'TEXT'
int mneme_negotiate_v1(void);
int mneme_negotiate_v1(void) { return 0; }
TEXT
(
  # shellcheck source=tests/abi/compatibility/build.sh
  . "$here/build.sh"
  build_plugin "$work/other.c" "$work/include" "$work/other.so" -Wl,--no-as-needed -lm
  [ "$(needs_beyond "$work/other.so")" = libm.so.6 ]
) || die "a plugin that needs libm.so.6 was not found out"

# ---- what is checked in is what the script writes ----
expect_success freeze "$version" --headers "$root/sdk/abi/$version"
for file in layout.c type_probe.c; do
  cmp "$root/sdk/abi/$version/$file" "$work/tree/sdk/abi/$version/$file" ||
    die "sdk/abi/$version/$file is not what scripts/freeze_abi.sh writes: before the release run it again with --force"
done

# ---- a line of releases, of the next major version ----
next=$((${version%.*} + 1))
set_version "$next" 0
expect_failure "ABI $next.0 is not written down: run scripts/freeze_abi.sh $next.0" gate version
expect_failure "ABI $next.0 is not written down" gate layout
expect_success freeze "$next.0" --headers "$work/include"
for name in version files; do expect_success gate "$name"; done
change_header log.h 's|/\* mneme/log.h: |/* mneme/log.h, in other words: |'
expect_success gate version
change_header log.h 's|^} mneme_log_api;|  void (*added)(const mneme_host* host);\n} mneme_log_api;|'
expect_failure 'under the same version' gate version
set_version "$next" 1
expect_failure "ABI $next.1 is not written down: run scripts/freeze_abi.sh $next.1" gate version
expect_success gate layout
expect_success freeze "$next.1" --headers "$work/include"
for name in version files layout new_plugin old_plugin; do expect_success gate "$name"; done
grep -qF "ABI $next.0 $next.1" "$work/out" || die "$next.1 was not held to $next.0 and $next.1: $(cat "$work/out")"
set_version "$next" 2
change_header log.h 's|^  void (\*added)(const mneme_host\* host);||'
expect_failure "the headers do not have the layout of ABI $next.1" gate layout

# ---- a version that somebody changed ----
set_version "$next" 1
echo '/* more */' >>"$work/tree/sdk/abi/$next.0/mneme/abi.h"
expect_failure "sdk/abi/$next.0 was changed" gate files
echo >"$work/tree/sdk/abi/$next.1/more.h"
rm -r "$work/tree/sdk/abi/$next.0"
expect_failure "sdk/abi/$next.1 holds the files" gate files
expect_failure "no gate is called 'layuot'" gate layuot
echo "scripts/freeze_abi.sh and a line of releases hold"
