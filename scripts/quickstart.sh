#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: one backbone trained with five memories, and their report.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/quickstart.sh [--torch DIR] [--cuda] [--no-apt]

Sets up (scripts/setup.sh, which explains the options), builds the program and its plugins in build/release, trains the
same small model without a memory and with each of four memories, from three seeds, prints how they compare, and writes a
report to look at in a browser. On two cores: packages and LibTorch 1 to 3 minutes (once), the build 3 to 7 (once), the
run 3 to 5. What an interrupted run has finished is used by the next one.

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
    *) usage_or_fail "$1" ;;
  esac
  shift
done
if has_gpu; then cuda=AUTO; fi

# As many trainings side by side as there are cores, at most fifteen: that many there are.
jobs_for_comparison() {
  local cores
  cores=$(nproc)
  echo $((cores < 15 ? cores : 15))
}

# minutes SECONDS: "2 min 05 s"
minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

say "1 of 3: packages and LibTorch (usually 1 to 3 minutes the first time, then seconds)"
bash scripts/setup.sh "${setup_arguments[@]}"
setup_seconds=$SECONDS

say "2 of 3: the program and its plugins (usually 3 to 7 minutes the first time on two cores)"
build_preset release all "-DMNEME_CUDA=$cuda" "${cmake_arguments[@]}"
build_seconds=$((SECONDS - setup_seconds))

memories=configs/quickstart/memory
run=(build/release/bin/mneme compare configs/quickstart/copy.toml --memory configs/memory/none.toml
     --memory "$memories/xl_cache.toml" --memory "$memories/compressive.toml"
     --memory "$memories/continuous_ltm.toml" --memory "$memories/lamemo.toml"
     --seeds 3 --jobs "$(jobs_for_comparison)" --threads 1 --run runs/quickstart)
say "3 of 3: a comparison (usually 3 to 5 minutes on two cores): ${run[*]}"
"${run[@]}" || fail "the run failed (its message is above)"
say "set-up $(minutes "$setup_seconds"), build $(minutes "$build_seconds")," \
  "run $(minutes $((SECONDS - setup_seconds - build_seconds)))"

cat <<'TEXT'

Where to look next
  runs/quickstart/report/index.html  the report of this comparison: open it in a browser, on any machine
  configs/quickstart/                the experiment that just ran, and the memories that it compared
  build/release/bin/mneme --help     the other commands; each has --help with examples
  docs/walkthrough.md                what every memory does in one segment, hook by hook
  examples/                          a memory of your own, built outside this tree
  scripts/test.sh                    builds and runs the tests
TEXT
