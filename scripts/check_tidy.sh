#!/usr/bin/env bash
# Looks for mistakes in changed C and C++ sources with clang-tidy: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check_tidy.sh [--minutes N] [COMMIT]

Runs clang-tidy 14 with the checks of .clang-tidy on the C and C++ sources that changed since COMMIT, and on those that are
not committed: the newest first, those that need LibTorch last. The flags are those of build/release, so its CMake must have
run. Without clang-tidy 14 nothing is checked, and a line says so.

  COMMIT       default: the commit that added this script
  --minutes N  how long it may take (default 10). It names the sources that it left out
TEXT
}

minutes=10 since=''
while (($# > 0)); do
  case $1 in
    --minutes)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--minutes needs a number of at least 1, got '${2:-}'"
      minutes=$2
      shift
      ;;
    -*) usage_or_fail "$1" ;;
    *)
      [[ -z $since ]] || fail "unknown argument '$1'"
      since=$(git rev-parse --verify --quiet "$1^{commit}") || fail "git knows no commit '$1'"
      ;;
  esac
  shift
done

tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [[ -z $tidy ]] || ! "$tidy" --version | grep -q 'version 14\.'; then
  say "skipped: mistakes are looked for with clang-tidy 14, which is not here"
  exit 0
fi
commands=build/release/compile_commands.json
[[ -f $commands ]] || fail "$commands is not there; scripts/test.sh makes it"
[[ -n $since ]] || since=$(git log --diff-filter=A --format=%H -- scripts/check_tidy.sh | tail -1)

# Sources that changed, the newest first; for a header that changed the source beside it. A file that only moved did not change.
changed_files() {
  {
    git diff --name-status -M --diff-filter=d HEAD
    [[ -z $since ]] || git log --format= --name-status -M --diff-filter=d --no-merges "$since..HEAD"
  } | awk -F '\t' '$1 != "R100" { sub(/\.hpp$/, ".cpp", $NF); if ($NF ~ /\.(c|cpp)$/ && !seen[$NF]++) print $NF }' |
    while IFS= read -r file; do
      # Device code for the CPU has names and types of its own.
      if [[ -f $file && $file != sdk/abi/* && $file != tests/cuda_shim/* ]]; then echo "$file"; fi
    done
}

# Of files on standard input: "1 if it needs LibTorch, file, flags", those without LibTorch first. A unity file of CMake stands
# for the sources that it includes.
with_flags() {
  python3 -c '
import json, os, re, shlex, sys
wanted = sys.stdin.read().split("\n")[:-1]
flags_of = {}
for entry in json.load(open(sys.argv[1])):
    sources, words = [entry["file"]], iter(shlex.split(entry["command"])[1:])
    if "/Unity/unity_" in entry["file"]:
        sources = re.findall(r"^#include \"(.*)\"$", open(entry["file"]).read(), re.M)
    flags = []
    for word in words:
        if word in ("--param", "-o", "-c", "-include"):  # and the precompiled header
            next(words)
        elif word not in ("-fno-gnu-unique", "-fpch-preprocess", "-Winvalid-pch"):
            flags.append(word)
    for source in sources:
        flags_of.setdefault(os.path.relpath(source), flags)
lines = [(any(flag.endswith("/torch/include") for flag in flags_of[file]), file) for file in wanted if file in flags_of]
for needs_torch, file in sorted(lines, key=lambda line: line[0]):
    print(int(needs_torch), file, shlex.join(flags_of[file]), sep="\t")
for file in wanted:
    if file not in flags_of:
        print(2, file, "", sep="\t")
' "$commands"
}

# check_one LINE: prints what is wrong with the file of a line of with_flags; notes it in $work/failed or $work/left.
check_one() {
  local needs_torch file flags left said status=0
  IFS=$'\t' read -r needs_torch file flags <<<"$1"
  left=$((deadline - $(date +%s)))
  if ((needs_torch == 2)); then
    echo "$file (build/release does not compile it)" >>"$work/left"
    return
  fi
  eval "flags=($flags)"
  said=$( ((left > 0)) && timeout "$left" "$tidy" --quiet "$file" -- "${flags[@]}" 2>"$work/${file//\//_}.err") || status=$?
  if ((left <= 0 || status == 124)); then
    echo "$file" >>"$work/left"
  elif ((status != 0)); then
    printf '%s\n' "${said:-$(<"$work/${file//\//_}.err")}"
    echo "$file" >>"$work/failed"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/failed" "$work/left"
deadline=$(($(date +%s) + minutes * 60))
export -f check_one
export work deadline tidy
changed_files | with_flags >"$work/files"
count=$(wc -l <"$work/files")
xargs -d '\n' -r -P "$(build_jobs)" -n 1 bash -c 'check_one "$1"' _ <"$work/files"
if [[ -s $work/left ]]; then
  say "not checked, of $count sources:"
  sed 's/^/  /' "$work/left"
fi
[[ ! -s $work/failed ]] || fail "clang-tidy finds mistakes in $(wc -l <"$work/failed") of $count changed sources"
say "clang-tidy finds no mistakes in $((count - $(wc -l <"$work/left"))) changed sources"
