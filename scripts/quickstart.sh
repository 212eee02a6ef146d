#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: one backbone trained with no memory and with a cache.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/quickstart.sh [--torch DIR] [--cuda] [--no-apt]

Sets up (scripts/setup.sh, which explains the options), builds build/release, trains the same small model without a
memory and with a segment cache, and prints how they compare. The run itself takes under four minutes on two cores.
TEXT
}

setup_arguments=("$@")
cmake_arguments=()
while (($#)); do
  case $1 in
    --torch)
      (($# >= 2)) || fail "--torch needs a folder: the one that holds LibTorch's include/ and lib/"
      cmake_arguments+=("-DMNEME_TORCH=$(realpath -m "$2")")
      shift
      ;;
    --cuda | --no-apt) ;;
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

bash scripts/setup.sh "${setup_arguments[@]}"
build_preset release "${cmake_arguments[@]}"

run=(build/release/bin/mneme compare configs/quickstart.toml
     --memory configs/memory/none.toml --memory configs/memory/xl_cache.toml
     --threads 1)  # at this size a second thread gains little, and on a busy machine it costs much
say "running: ${run[*]}"
started=$SECONDS
"${run[@]}" || fail "the run failed (its message is above)"
say "the run took $((SECONDS - started)) s"

cat <<'TEXT'

Where to look next
  configs/quickstart.toml            the experiment that just ran; configs/memory/ holds the memories it compared
  build/release/bin/mneme --help     the other commands; each has --help with examples
  docs/walkthrough.md                what every memory does in one segment, hook by hook
  examples/                          a memory of your own, built outside this tree
TEXT
