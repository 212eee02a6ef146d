#!/usr/bin/env bash
# Installs what is missing, builds the program and the plugins, and trains one model without a memory and with a cache.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/quickstart.sh [--torch DIR] [--cuda] [--no-apt]

Four steps, each announced with the time that it usually takes on two cores:
  packages   Debian packages and LibTorch that are missing (scripts/setup.sh, which explains the options)
  configure  build/release
  build      the program and the plugins; no tests, no benchmarks, CUDA sources only with --cuda
  run        trains the same small model without a memory and with a segment cache, and prints how they compare

scripts/test.sh builds the tests too and runs them.
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

say "step 1 of 4: packages and LibTorch (a few seconds when they are there; else as long as the download of 550 MB takes)"
bash scripts/setup.sh "${setup_arguments[@]}"
say "steps 2 and 3 of 4: configuring and building the program and the plugins (about 4 minutes the first time)"
build_preset release "${cmake_arguments[@]}" "-DMNEME_CUDA=$cuda"

run=(build/release/bin/mneme compare configs/quickstart.toml
     --memory configs/memory/none.toml --memory configs/memory/xl_cache.toml
     --threads 1)  # at this size a second thread gains little, and on a busy machine it costs much
say "step 4 of 4: training and comparing (under 4 minutes): ${run[*]}"
started=$SECONDS
"${run[@]}" || fail "the run failed (its message is above)"
say "the run took $((SECONDS - started)) s"

cat <<'TEXT'

Where to look next
  configs/quickstart.toml            the experiment that just ran; configs/memory/ holds the memories it compared
  build/release/bin/mneme --help     the other commands; each has --help with examples
  docs/design.md                     how it works and why, with a glossary
  docs/walkthrough.md                what every memory does in one segment, hook by hook
  examples/                          a memory of your own, built outside this tree
TEXT
