#!/bin/sh
# gates.sh GATE ROOT [INCLUDE]: holds the headers in INCLUDE (ROOT/sdk/include) to the versions of the ABI in ROOT/sdk/abi
# that they have to be compatible with: those of the same major version, and while it is 0, of the same minor version.
# Exit status 1 when they are not, 77 when the gate cannot be run here.
#   version     the headers' own version is written down; from 1.0 on, with the very declarations that they have
#   files       nobody has changed a version that is written down
#   layout      sizes, offsets, types and values
#   types       abidiff on a library that uses every type: additions at the end of structs alone
#   new_plugin  a plugin built with INCLUDE, on a host built with the old headers
#   old_plugin  the plugin that was built with the old headers, on a host built with INCLUDE
# gates_test.py, which calls this many times, sets MNEME_GATE_COMPILERS to one compiler for `layout`, and MNEME_MINI_HOSTS to a
# folder with mini hosts that are built.
set -eu
gate=$1
root=$2
include=${3:-$root/sdk/include}
# shellcheck source=tests/abi/compatibility/build.sh
. "$root/tests/abi/compatibility/build.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAIL: $*"
  exit 1
}

skip() {
  echo "skipped: $*"
  exit 77
}

case $gate in
  version | files | layout | types | new_plugin | old_plugin) ;;
  *) fail "no gate is called '$gate'; expected version, files, layout, types, new_plugin or old_plugin" ;;
esac

# ---- the versions ----
# shellcheck disable=SC2046
set -- $(abi_version_of "$include")
[ $# -eq 2 ] || fail "$include/mneme/abi.h does not define MNEME_ABI_MAJOR and MNEME_ABI_MINOR as numbers such as 1u"
major=$1
minor=$2
versions=
for folder in "$root"/sdk/abi/*/; do
  name=$(basename "$folder")
  case $name in
    "$major".*)
      if [ "${name#*.}" -eq "$minor" ] || { [ "$major" -gt 0 ] && [ "${name#*.}" -lt "$minor" ]; }; then
        versions="$versions $name"
      fi
      ;;
  esac
done

# ---- gates: each looks at one version, $frozen ----

# The declarations of the specification, without comments and blanks.
declarations() {
  for header in "$1"/mneme/*.h; do
    [ "$(basename "$header")" != sdk.h ] || continue
    awk '{ text = text $0 "\n" }
      END {
        while ((i = index(text, "/*")) > 0) {
          rest = substr(text, i + 2)
          text = substr(text, 1, i - 1) " " substr(rest, index(rest, "*/") + 2)
        }
        printf "%s", text
      }' "$header" | grep -v '^#define MNEME_SDK_VERSION ' | sed -E 's/[[:space:]]+/ /g; s/ $//' | grep -v '^ *$'
  done
}

gate_version() {
  [ "$(basename "$frozen")" = "$major.$minor" ] && [ "$major" -gt 0 ] || return 0
  declarations "$frozen" >"$work/frozen"
  declarations "$include" >"$work/now"
  cmp -s "$work/frozen" "$work/now" || fail "the headers declare other things than sdk/abi/$major.$minor, under the same" \
    "version. If that version was released, raise MNEME_ABI_MINOR; then run scripts/freeze_abi.sh: $(diff "$work/frozen" "$work/now" | head -5)"
}

gate_files() {
  (cd "$frozen" && sha256sum --check --quiet --strict SHA256SUMS) ||
    fail "sdk/abi/$(basename "$frozen") was changed; a version is written by scripts/freeze_abi.sh alone"
  listed=$(cut -c 67- "$frozen/SHA256SUMS" | sort | tr '\n' ' ')
  there=$(cd "$frozen" && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | sort | tr '\n' ' ')
  [ "$listed" = "$there" ] || fail "sdk/abi/$(basename "$frozen") holds the files $there; expected $listed"
}

gate_layout() {
  cp "$frozen/layout.c" "$work/layout.c" # beside it the compiler would find the old headers
  compiled=0
  for compiler in ${MNEME_GATE_COMPILERS:-gcc clang}; do
    command -v "$compiler" >/dev/null || continue
    compiled=$((compiled + 1))
    "$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$work/layout.c" ||
      fail "the headers do not have the layout of ABI $(basename "$frozen") ($compiler's message is above)"
  done
  [ "$compiled" -gt 0 ] || fail "no gcc and no clang was found; scripts/setup.sh installs them"
}

gate_types() {
  command -v abidiff >/dev/null || skip "abidiff is not installed (Debian package abigail-tools)"
  cp "$frozen/type_probe.c" "$work/type_probe.c"
  for side in frozen include; do
    eval "headers=\$$side"
    "$(abi_compiler)" -std=c11 -g -O0 -fPIC -shared -I"$headers" -o "$work/$side.so" "$work/type_probe.c" ||
      fail "the library of all types of ABI $(basename "$frozen") does not compile with $headers"
  done
  abidiff --leaf-changes-only --no-show-locs "$work/frozen.so" "$work/include.so" >"$work/report" && return 0
  # A report of growing structs has such blocks alone; CLOSED structs may not grow.
  closed=$(sed -nE "s/^CLOSED\\((mneme_[a-z_]+),.*/'struct \\1'/p" "$frozen/layout.c" | tr '\n' ' ')
  awk -v closed="$closed" '
    /^$/ || /^(Leaf changes|Changed leaf types|Removed\/Changed\/Added (functions|variables)) summary: / { next }
    /^.struct mneme_[a-z_]+. changed:$/ && index(closed, $1 " " $2) == 0 { next }
    /^  type size changed from [0-9]+ to [0-9]+ / { size = $5; next }
    /^  [0-9]+ data member insertions?:$/ { next }
    /^    .*, at offset [0-9]+ \(in bits\)$/ && $(NF - 2) >= size { next }
    { print; bad = 1 }
    END { exit !bad }' "$work/report" >"$work/incompatible" || return 0
  cat "$work/report"
  fail "abidiff found more than additions at the end of structs, against ABI $(basename "$frozen"): $(head -1 "$work/incompatible")"
}

gate_new_plugin() {
  name=$(basename "$frozen")
  cp "$frozen/plugin.c" "$work/plugin.c"
  build_plugin "$work/plugin.c" "$include" "$work/plugin.so" -O0 \
    "-DMNEME_PLUGIN_ABI_MIN=MNEME_ABI_MAKE(${name%.*}u, ${name#*.}u)" ||
    fail "the source of a plugin for ABI $name does not compile with the headers"
  host=${MNEME_MINI_HOSTS:-$work}/mini_host_$name
  [ -x "$host" ] || build_mini_host "$frozen" "$host" || fail "the mini host does not compile with the headers of ABI $name"
  "$host" "$work/plugin.so" "$frozen/plugin.numbers" ||
    fail "a plugin built with the headers does not work in a host of ABI $name"
}

gate_old_plugin() {
  [ "$(uname -m)" = x86_64 ] || skip "the binary plugin is one for x86-64, and this is $(uname -m)"
  build_mini_host "$include" "$work/mini_host" || fail "the mini host does not compile with the headers"
  "$work/mini_host" "$frozen/plugin.so" "$frozen/plugin.numbers" ||
    fail "the binary plugin of ABI $(basename "$frozen") does not work in a host built with the headers"
}

case " $versions " in
  *" $major.$minor "*) ;;
  *)
    [ "$gate" != version ] && [ -n "$versions" ] ||
      fail "ABI $major.$minor is not written down: run scripts/freeze_abi.sh $major.$minor (sdk/abi has:$versions)"
    ;;
esac
for version in $versions; do
  frozen=$root/sdk/abi/$version
  "gate_$gate"
done
echo "$gate: the headers agree with ABI$versions"
