#!/usr/bin/env bash
# Kills and stops commands at random moments and checks what is left and where they end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

usage() {
  cat <<'TEXT'
usage: scripts/check_kills.sh [--kills N] [--stops N] [--timers N] [--seed N]

Trains a small model, kills the process (SIGKILL) at random moments, most of them while a checkpoint
is written, and resumes it until it ends, again and again. Fails when a kill leaves a run that
cannot be read, or when an end differs from that of an uninterrupted run in any bit but the times.

Then stops train, compare, eval and generate by SIGINT, SIGTERM and SIGHUP at random moments. Fails
when one does not end with its status and its message, or when what is resumed, continued or begun
again ends otherwise than what never stopped.

Then trains with a timer's signal a thousand times a second of processor time, by one thread and by
two. Fails when a training ends otherwise than without.

Takes less than a second a kill, a stop or a training. Builds build/release when it is missing; says
the seed.

  --kills N   how many kills (default 200; 0 = none)
  --stops N   how many stops (default 300; 0 = none)
  --timers N  how many trainings with the timer (default 20; 0 = none)
  --seed N    of the moments (default: drawn)
TEXT
}

kills=200 stops=300 timers=20
while [ $# -gt 0 ]; do
  case $1 in
    --kills | --stops | --timers | --seed)
      [[ ${2-} =~ ^[0-9]+$ ]] || fail "$1: expected a number, got \"${2-}\""
      case $1 in
        --kills) kills=$2 ;;
        --stops) stops=$2 ;;
        --timers) timers=$2 ;;
        --seed) export MNEME_SEED=$2 ;;
      esac
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
export OMP_NUM_THREADS=1 MNEME_KILLS=$kills MNEME_STOPS=$stops MNEME_TIMERS=$timers
status=0
[ "$kills" -eq 0 ] || build/release/tests/kill_test --gtest_filter='Kills.*' || status=1
[ "$stops" -eq 0 ] || build/release/tests/kill_test --gtest_filter='Stops.*' || status=1
[ "$timers" -eq 0 ] || build/release/tests/kill_test --gtest_filter='TimerSignal.*' || status=1
exit $status
