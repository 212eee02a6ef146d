#!/usr/bin/env bash
# Kills and stops commands at random moments and checks what is left and where they end.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/common.sh

usage() {
  cat <<'TEXT'
usage: scripts/check/check_kills.sh [--kills N] [--stops N] [--timers N] [--ranks N] [--seed N]

Trains a small model, kills the process (SIGKILL) at random moments, most of them while a checkpoint
is written, and resumes it until it ends, again and again. Fails when a kill leaves a run that
cannot be read, or when an end differs from that of an uninterrupted run in any bit but the times.

Then stops train, compare, eval and generate by SIGINT, SIGTERM and SIGHUP at random moments. Fails
when one does not end with its status and its message, or when what is resumed, continued or begun
again ends otherwise than what never stopped.

Then trains with a timer's signal a thousand times a second of processor time, by one thread and by
two. Fails when a training ends otherwise than without.

Then trains in two processes under mpirun, kills one of them at random moments, and resumes until the
training ends. Fails when a process is left behind, when a checkpoint is torn, or when an end differs
from that of a training that was not killed. Left out, with a line that says so, where there is no mpirun.

Takes less than a second a kill, a stop or a training, and two seconds a kill under mpirun. Builds build/release when it is missing; says
the seed.

  --kills N   how many kills (default 200; 0 = none)
  --stops N   how many stops (default 300; 0 = none)
  --timers N  how many trainings with the timer (default 20; 0 = none)
  --ranks N   how many kills of one of two processes (default 100; 0 = none)
  --seed N    of the moments (default: drawn)
TEXT
}

kills=200 stops=300 timers=20 ranks=100 needs_ranks=no
while [ $# -gt 0 ]; do
  case $1 in
    --kills | --stops | --timers | --ranks | --seed)
      [[ ${2-} =~ ^[0-9]+$ ]] || fail "$1: expected a number, got \"${2-}\""
      case $1 in
        --kills) kills=$2 ;;
        --stops) stops=$2 ;;
        --timers) timers=$2 ;;
        --ranks) ranks=$2 needs_ranks=yes ;;
        --seed) export MNEME_SEED=$2 ;;
      esac
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# build_test NAME: a test program that is missing.
build_test() {
  if [ ! -x "build/release/tests/$1" ]; then
    cmake --preset release -DMNEME_TESTS=ON
    cmake --build build/release --target "$1"
  fi
}

[ -f build/release/CMakeCache.txt ] || cmake --preset release -DMNEME_TESTS=ON
if [ "$ranks" -gt 0 ] && { ! command -v mpirun >/dev/null || ! grep -q '^MPI_C_LIB_NAMES:STRING=.' build/release/CMakeCache.txt; }; then
  without="there is no mpirun, or build/release has no MPI; scripts/setup.sh installs Open MPI"
  [ $needs_ranks = no ] || fail "--ranks: $without"
  say "kills under mpirun are left out: $without"
  ranks=0
fi
[ $((kills + stops + timers)) -eq 0 ] || build_test kill_test
[ "$ranks" -eq 0 ] || build_test ranks_run_test
export OMP_NUM_THREADS=1 MNEME_KILLS=$kills MNEME_STOPS=$stops MNEME_TIMERS=$timers MNEME_RANK_KILLS=$ranks
status=0
[ "$kills" -eq 0 ] || build/release/tests/kill_test --gtest_filter='Kills.*' || status=1
[ "$stops" -eq 0 ] || build/release/tests/kill_test --gtest_filter='Stops.*' || status=1
[ "$timers" -eq 0 ] || build/release/tests/kill_test --gtest_filter='TimerSignal.*' || status=1
[ "$ranks" -eq 0 ] || build/release/tests/ranks_run_test --gtest_filter='Ranks.SurviveKills' || status=1
exit $status
