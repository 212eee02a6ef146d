#!/usr/bin/env bash
# Installs what is missing, builds, runs the tests, and ends with the line "N passed, N failed, N skipped".
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--sanitize] [--torch DIR] [--cuda] [--no-apt] [--jobs N] [ctest argument...]

Sets up (scripts/setup.sh, which explains --torch, --cuda and --no-apt), builds build/release and runs all tests, whose
temporary files lie in TMPDIR; without it in /dev/shm where that has room, else in /tmp.

  --sanitize   instead, build build/sanitize and run the unit tests, under the address and the undefined-behaviour sanitizer
  --jobs N     run N tests at a time (default 2)
  anything else goes to ctest: -L golden runs one label, -R regex picks tests by name, -LE slow leaves a label out
TEXT
}

preset=release
build_arguments=(-DMNEME_BENCHMARKS=OFF -DMNEME_CUDA=AUTO)  # benchmarks are compiled by .ci/run
jobs=2
setup_arguments=()
cmake_arguments=()
ctest_arguments=()
while (($#)); do
  case $1 in
    --sanitize)
      preset=sanitize
      build_arguments=()
      ;;
    --torch)
      (($# >= 2)) || fail "--torch needs a folder: the one that holds LibTorch's include/ and lib/"
      setup_arguments+=(--torch "$2")
      cmake_arguments+=("-DMNEME_TORCH=$(realpath -m "$2")")
      shift
      ;;
    --cuda | --no-apt) setup_arguments+=("$1") ;;
    --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--jobs needs a number of at least 1, got '${2:-}'"
      jobs=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done
# Without a GPU device code is only compiled: for one architecture.
[[ $preset != release ]] || has_gpu || build_arguments+=(-DCMAKE_CUDA_ARCHITECTURES=80)
target=all
if [[ $preset != release && ${#ctest_arguments[@]} -eq 0 ]]; then
  target=unit_tests ctest_arguments=(-L '^unit$' -E '^scripts[.]')  # scripts have no code to instrument
fi

bash scripts/setup.sh "${setup_arguments[@]}"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
build_preset "$preset" "$target" -DMNEME_TESTS=ON "${build_arguments[@]}" "${cmake_arguments[@]}"
results=$root/build/$preset/test_results.xml
rm -f "$results"
say "testing build/$preset"
# Tests write thousands of small files, and wait until each is on the disk.
if [[ -z ${TMPDIR:-} ]] && in_memory=$(folder_in_memory) && [[ -n $in_memory ]]; then
  TMPDIR=$(mktemp -d "$in_memory/mneme-tests.XXXXXX")
  chmod 755 "$TMPDIR"  # mktemp's are root's alone, and tests run as an ordinary user too
  trap 'rm -rf "$TMPDIR"' EXIT
  export TMPDIR
fi
status=0
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" --output-junit "$results" \
  --test-output-size-passed 400000 "${ctest_arguments[@]}" || status=1
[[ -s $results ]] || fail "ctest wrote no results for build/$preset (its message is above)"
read -r passed failed skipped < <(count_results "$results")
cases=$((passed + $(count_cases "$results")))

printf '\n%d cases passed, the rows of tables counted singly\n' "$cases"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((status == 0 && failed == 0 && passed > 0))
