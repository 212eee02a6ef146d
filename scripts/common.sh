# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, never run. Sets `root` and goes there.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

say() { printf '==> %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# usage_or_fail ARGUMENT: ends the script for an argument that it does not know otherwise: with its usage() for -h and --help.
usage_or_fail() {
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      fail "unknown argument '$1'"
      ;;
  esac
}

# Prints how many compiler processes fit: one a core, and 2 GB of memory each (LibTorch's headers need them).
build_jobs() {
  local cores memory_gb jobs
  cores=$(nproc)
  memory_gb=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  jobs=$((memory_gb / 2 < cores ? memory_gb / 2 : cores))
  echo $((jobs > 0 ? jobs : 1))
}

# Succeeds when the machine has a GPU of NVIDIA.
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# Prints the first folder of the arguments that holds a LibTorch; fails when none does.
find_libtorch() {
  local named folder
  for named in "$@"; do
    for folder in "$named" "$named/../../.."; do
      if [[ -e $folder/lib/libtorch_cpu.so && -e $folder/include/torch/csrc/api/include/torch/torch.h ]]; then
        (cd "$folder" && pwd)
        return 0
      fi
    done
  done
  return 1
}

# Prints a folder in memory from which programs run and that has 4 GB free, or nothing.
folder_in_memory() {
  local folder=/dev/shm program
  [[ -w $folder ]] && (($(df -k --output=avail "$folder" | tail -n 1) >= 4 << 20)) || return 0
  program=$(mktemp "$folder/mneme.XXXXXX") || return 0
  if install -m 700 "$(type -P true)" "$program" && "$program"; then echo "$folder"; fi
  rm -f "$program"
}

# build_preset PRESET TARGET [cmake argument...]: configures build/PRESET and builds TARGET there.
build_preset() {
  local preset=$1 target=$2 jobs
  shift 2
  jobs=$(build_jobs)
  say "configuring build/$preset"
  cmake --preset "$preset" "$@" ||
    fail "cmake could not configure build/$preset (its message is above); scripts/setup.sh installs what is needed"
  say "building build/$preset with $jobs processes"
  cmake --build "build/$preset" --target "$target" -j "$jobs" || fail "the build of build/$preset failed (the compiler's message is above)"
}

# Prints the counts of a JUnit file of ctest as "passed failed skipped". An entry of several tests of GoogleTest counts as
# many as it says; a test that could not be started counts as failed.
count_results() {
  awk '
    /<testcase / { status = ""; ran = said_failed = said_skipped = -1 }
    /<testcase .*status="run"/ { status = "passed" }
    /<testcase .*status="fail"/ { status = "failed" }
    /<testcase .*status="disabled"/ { status = "skipped" }
    /<skipped message="SKIP_/ { status = "skipped" }
    /^\[  PASSED  \] [0-9]+ tests?\.$/ { ran = $4 }
    /^\[  SKIPPED \] [0-9]+ tests?, listed below:$/ { said_skipped = $4 }
    /^\[  FAILED  \] [0-9]+ tests?, listed below:$/ { said_failed = $4 }
    /<\/testcase>/ {
      if (ran < 0 || status == "") {  # no summary of GoogleTest, or it did not get to one
        if (status == "passed") passed++; else if (status == "skipped") skipped++; else failed++
      } else {
        passed += ran
        if (said_skipped > 0) skipped += said_skipped
        if (said_failed > 0) failed += said_failed; else if (status == "failed") failed++
      }
    }
    END { printf "%d %d %d\n", passed, failed, skipped }' "$1"
}

# Prints how many cases the passed tests of a JUnit file hold: a test of a table names its rows ("[    CASES ] Suite.Test: 12").
count_cases() {
  awk '
    /\[    CASES \] / { rows += $NF - 1 }
    END { print rows + 0 }' "$1"
}
