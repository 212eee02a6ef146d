#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: one backbone trained with no memory and with a cache.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/quickstart.sh [--torch DIR] [--cuda] [--no-apt]

Sets up (scripts/setup.sh, which explains the options), builds the program and its plugins in build/release, trains the
same small model without a memory and with a segment cache, and prints how they compare. On two cores: packages and
LibTorch 1 to 3 minutes (once), the build under 4 (once), the run under 3.

Tests, benchmarks and CUDA sources are left out of the build. --cuda adds the CUDA sources, as does a GPU that nvidia-smi
lists; scripts/test.sh builds the tests.
TEXT
}

setup_arguments=("$@")
cmake_arguments=(-DMNEME_TESTS=OFF -DMNEME_BENCHMARKS=OFF)
cuda=OFF
while (($#)); do
  case $1 in
    --torch)
      (($# >= 2)) || fail "--torch needs a folder: the one that holds LibTorch's include/ and lib/"
      cmake_arguments+=("-DMNEME_TORCH=$(realpath -m "$2")")
      shift
      ;;
    --cuda) cuda=AUTO ;;
    --no-apt) ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      fail "unknown argument '$1'"
      ;;
  esac
  shift
done
if has_gpu; then cuda=AUTO; fi

# minutes SECONDS: "2 min 05 s"
minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

say "1 of 3: packages and LibTorch (usually 1 to 3 minutes the first time, then seconds)"
bash scripts/setup.sh "${setup_arguments[@]}"
setup_seconds=$SECONDS

say "2 of 3: the program and its plugins (usually 3 to 4 minutes the first time on two cores)"
build_preset release "-DMNEME_CUDA=$cuda" "${cmake_arguments[@]}"
build_seconds=$((SECONDS - setup_seconds))

run=(build/release/bin/mneme compare configs/quickstart.toml
     --memory configs/memory/none.toml --memory configs/memory/xl_cache.toml
     --threads 1)  # at this size a second thread gains little, and on a busy machine it costs much
say "3 of 3: a comparison (usually 2 to 3 minutes): ${run[*]}"
"${run[@]}" || fail "the run failed (its message is above)"
say "set-up $(minutes "$setup_seconds"), build $(minutes "$build_seconds")," \
  "run $(minutes $((SECONDS - setup_seconds - build_seconds)))"

cat <<'TEXT'

Where to look next
  configs/quickstart.toml            the experiment that just ran; configs/memory/ holds the memories it compared
  build/release/bin/mneme --help     the other commands; each has --help with examples
  docs/walkthrough.md                what every memory does in one segment, hook by hook
  examples/                          a memory of your own, built outside this tree
  scripts/test.sh                    builds and runs the tests
TEXT
