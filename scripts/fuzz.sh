#!/usr/bin/env bash
# Builds the targets of tests/fuzz with libFuzzer and runs them.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly targets=(conversation dialogue evaluation experiment gguf model_folder name_map plugin prepared question run safetensors serve tokenizer vocabulary)

usage() {
  cat <<TEXT
usage: scripts/fuzz.sh [--seconds N | --runs N] [--fast] [--jobs N] [--target NAME]...

Gives changed inputs to the readers of everything that mneme reads from outside, with the address
and the undefined-behaviour sanitizer, and lets coverage choose the changes. A reader may accept an
input or refuse it with an error of mneme; everything else is a finding, and ends its target. Builds
build/fuzz (preset fuzz, clang), and keeps there the inputs that reach new code: a later call goes
on from them. Ends with a table; exit status 1 when there is a finding.

  --seconds N    time for each target (default 60)
  --runs N       inputs for each target, in place of a time
  --fast         without the sanitizers, in build/fuzz_fast: several times as many inputs a second,
                 of which crashes, hangs and broken promises are found, and no silent damage
  --jobs N       targets that run at once (default 1)
  --target NAME  this target only; may be given more than once. They are:
                 ${targets[*]:0:6}
                 ${targets[*]:6}
TEXT
}

limit=(-max_total_time=60)
chosen=()
jobs=1
build=build/fuzz
arguments=(-DMNEME_TESTS=ON)
while (($#)); do
  case $1 in
    --seconds | --runs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a number of at least 1, got '${2:-}'"
      if [[ $1 == --runs ]]; then limit=("-runs=$2"); else limit=("-max_total_time=$2"); fi
      shift
      ;;
    --fast)
      build=build/fuzz_fast
      arguments+=(-DMNEME_FUZZ_SANITIZERS=OFF "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1")
      ;;
    --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--jobs needs a number of at least 1, got '${2:-}'"
      jobs=$2
      shift
      ;;
    --target)
      [[ " ${targets[*]} " == *" ${2:-} "* ]] || fail "--target needs one of ${targets[*]}, got '${2:-}'"
      chosen+=("$2")
      shift
      ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done
((${#chosen[@]})) || chosen=("${targets[@]}")

readonly install="run scripts/setup.sh, or install clang and libclang-rt-dev (Debian 12: libclang-rt-14-dev)"
command -v clang++ >/dev/null || fail "there is no clang++, which brings libFuzzer; $install"
work=$(mktemp -d)
folder=$work/folder  # of the targets, in memory where there is such a place
[[ -w /dev/shm ]] && folder=$(mktemp -d /dev/shm/mneme-fuzz-XXXXXX)
mkdir -p "$folder"
trap 'rm -rf "$work" "$folder"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$work/probe.cpp"
clang++ -fsanitize=fuzzer,address,undefined "$work/probe.cpp" -o "$work/probe" 2>"$work/said" ||
  fail "clang++ has no runtime of libFuzzer or of the sanitizers; $install; it said: $(tail -n 1 "$work/said")"

say "configuring $build"
cmake --preset fuzz -B "$build" "${arguments[@]}" >"$work/said" 2>&1 ||
  fail "cmake could not configure $build; scripts/setup.sh installs what is needed; it said: $(tail -n 20 "$work/said")"
say "building ${#chosen[@]} targets"
cmake --build "$build" -j "${MNEME_FUZZ_JOBS:-$(build_jobs)}" --target "${chosen[@]/#/fuzz_}" ||
  fail "the build of $build failed (the compiler's message is above)"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TMPDIR=$folder OMP_NUM_THREADS=1

# The dictionary of a target.
dictionary_of() {
  case $1 in
    experiment | name_map) echo toml ;;
    gguf) echo gguf ;;
    plugin) echo elf ;;
    safetensors) echo safetensors ;;
    *) echo json ;;
  esac
}

declare -A log_of
mkdir -p "$work/failed"
# Its output into the target's log; notes a target with a finding in $work/failed.
fuzz() {
  local target=$1 program=$build/fuzz/fuzz_$1 corpus=$build/fuzz/corpus/$1 seeds=$work/seeds/$1 found=$build/fuzz/findings/$1
  mkdir -p "$corpus" "$found" "$seeds"
  "$program" --write-seeds "$seeds"
  "$program" "$corpus" "$seeds" "tests/fuzz/cases/$target" "${limit[@]}" -max_len=16384 -timeout=25 -rss_limit_mb=3072 \
    -malloc_limit_mb=1024 -print_final_stats=1 "-dict=tests/fuzz/dictionaries/$(dictionary_of "$target").dict" \
    "-artifact_prefix=$found/" >"${log_of[$target]}" 2>&1 || : >"$work/failed/$target"
}
for target in "${chosen[@]}"; do
  log_of[$target]=$build/fuzz/$target.log
  say "fuzzing $target (${log_of[$target]})"
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  fuzz "$target" &
done
wait
findings=()
for target in "${chosen[@]}"; do
  if [[ -e $work/failed/$target ]]; then findings+=("$target"); fi
done

# field TARGET EXPRESSION: the last number that the expression's group finds in a target's log; 0 without one.
field() {
  local number
  number=$(sed -nE "s/.*$2.*/\1/p" "${log_of[$1]}" | tail -n 1)
  echo "${number:-0}"
}

printf '\n%-13s %12s %12s %9s %9s %7s %8s\n' target executions "a second" edges features inputs findings
for target in "${chosen[@]}"; do
  has_finding=0
  [[ " ${findings[*]} " == *" $target "* ]] && has_finding=1
  printf '%-13s %12s %12s %9s %9s %7s %8s\n' "$target" "$(field "$target" 'number_of_executed_units: *([0-9]+)')" \
    "$(field "$target" 'average_exec_per_sec: *([0-9]+)')" "$(field "$target" ' cov: ([0-9]+)')" \
    "$(field "$target" ' ft: ([0-9]+)')" "$(field "$target" ' corp: ([0-9]+)')" "$has_finding"
done
((${#findings[@]} == 0)) && exit 0
for target in "${findings[@]}"; do
  input=$(sed -nE 's/.*Test unit written to (.*)/\1/p' "${log_of[$target]}" | tail -n 1)
  printf '\n%s: ' "$target"
  grep -m 1 -E '^finding: |^==[0-9]+==ERROR: |runtime error: ' "${log_of[$target]}" || echo "see ${log_of[$target]}"
  if [[ -n $input ]]; then
    echo "  again:  $build/fuzz/fuzz_$target $input"
    echo "  keep:   cp $input tests/fuzz/cases/$target/<what it is>"
  fi
done
exit 1
