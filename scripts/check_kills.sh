#!/usr/bin/env bash
# Kills training runs at random moments and checks what is left and where they end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

usage() {
  cat <<'TEXT'
usage: scripts/check_kills.sh [--kills N] [--seed N]

Trains a small model, kills the process (SIGKILL) at random moments, most of them while a checkpoint
is written, and resumes it until it ends, again and again. Fails when a kill leaves a run that
cannot be read, or when an end differs from that of an uninterrupted run in any bit but the times.
Takes less than a second a kill. Builds build/release when it is missing; says the seed.

  --kills N   how many (default 200)
  --seed N    of the moments (default: drawn)
TEXT
}

kills=200
while [ $# -gt 0 ]; do
  case $1 in
    --kills | --seed)
      [[ ${2-} =~ ^[0-9]+$ ]] || fail "$1: expected a number, got \"${2-}\""
      if [ "$1" = --kills ]; then kills=$2; else export MNEME_SEED=$2; fi
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

if [ ! -x build/release/tests/kill_test ]; then
  cmake --preset release -DMNEME_TESTS=ON
  cmake --build build/release --target kill_test
fi
OMP_NUM_THREADS=1 MNEME_KILLS=$kills exec build/release/tests/kill_test
