# shellcheck shell=sh
# Builds what the tests of this folder and scripts/freeze_abi.sh run. Sourced, with `root` set to the project's root.

# abi_version_of INCLUDE: "major minor" of the headers in INCLUDE/mneme.
abi_version_of() {
  sed -nE 's/^#define MNEME_ABI_(MAJOR|MINOR) ([0-9]+)u$/\2/p' "$1/mneme/abi.h" | tr '\n' ' '
}

# abi_compiler: the first C compiler that is there.
abi_compiler() {
  for name in ${CC:-} gcc clang cc; do
    if command -v "$name" >/dev/null; then
      echo "$name"
      return 0
    fi
  done
  return 1
}

# build_plugin SOURCE INCLUDE OUTPUT [FLAG...]: a plugin as mneme_add_plugin makes one, needing libc alone. The same
# compiler makes the same bytes of it in any folder.
build_plugin() (
  source=$1 headers=$2 output=$3
  shift 3
  "$(abi_compiler)" -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -fno-ident "$@" -I"$headers" \
    "-ffile-prefix-map=$(dirname "$source")/=" -shared -s -o "$output" "$source" \
    "-Wl,--version-script=$root/sdk/cmake/mneme_plugin.map" -Wl,-z,now -Wl,-z,defs -Wl,-z,noseparate-code -Wl,--build-id=none
)

# build_mini_host INCLUDE OUTPUT
build_mini_host() (
  folder=$root/tests/abi/compatibility
  "$(abi_compiler)" -std=c11 -O0 -Wall -Wextra -Werror -I"$1" -I"$folder" -o "$2" "$folder"/host/mini_host*.c -ldl -lm
)

# needs_beyond FILE: what a library needs beyond libc and glibc 2.28, one a line.
needs_beyond() {
  readelf -d "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vx 'libc\.so\.6' || true
  readelf -V "$1" | sed -nE 's/.*Name: (GLIBC_[0-9.]+).*/\1/p' | sort -uV | awk -F '[_.]' '$2 > 2 || $3 > 28' || true
}
