#!/usr/bin/env bash
# Checks the format of the C, C++ and CUDA sources against .clang-format: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check_format.sh [--mend]

Says which C, C++ and CUDA files clang-format 14 would change; with --mend it changes them. The frozen versions of the ABI
(sdk/abi) are left out. Without clang-format 14 nothing is checked, and a line says so.
TEXT
}

mend=no
case ${1:-} in
  '') ;;
  --mend) mend=yes ;;
  *) usage_or_fail "$1" ;;
esac

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $formatter ]] || ! "$formatter" --version | grep -q 'version 14\.'; then
  say "skipped: the format is checked with clang-format 14, which is not here"
  exit 0
fi
mapfile -t files < <(git ls-files '*.c' '*.cpp' '*.cu' '*.cuh' '*.h' '*.hpp' '*.inl' ':!sdk/abi/')
((${#files[@]} > 0)) || fail "git lists no sources"
if [[ $mend == yes ]]; then
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 40 "$formatter" -i
  exit 0
fi
wrong=$(printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 40 "$formatter" --dry-run 2>&1 |
  sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
[[ -z $wrong ]] || fail "not in the format of .clang-format (scripts/check_format.sh --mend changes them):"$'\n'"$wrong"
say "${#files[@]} sources have the format of .clang-format"
