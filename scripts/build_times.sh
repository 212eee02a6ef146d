#!/usr/bin/env bash
# Prints where the time of a build went: seconds of jobs by folder, from the build's log.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/build_times.sh [BUILD] [--files N]

Sums the seconds of all jobs of a build by the folder of what they made, from BUILD/.ninja_log (BUILD: build/release). Jobs
run side by side, so that the sum is more than the time on the clock. A job that was run again counts once, as it last ran;
with a compiler cache that is not empty the seconds say little.

  --files N    then the N slowest jobs
TEXT
}

build=build/release
files=0
while (($#)); do
  case $1 in
    --files)
      [[ ${2:-} =~ ^[0-9]+$ ]] || fail "--files needs a number, got '${2:-}'"
      files=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      usage >&2
      fail "unknown argument '$1'"
      ;;
    *) build=$1 ;;
  esac
  shift
done
log=$build/.ninja_log
[[ -s $log ]] || fail "$log is missing or empty: build first (scripts/quickstart.sh or scripts/test.sh)"

# One line a job: seconds and its first output. A job with several outputs has a line for each, alike in times and hash.
jobs=$(awk -F'\t' 'NR > 1 && NF == 5 { last[$4] = $0 }
  END {
    for (output in last) {
      split(last[output], field, "\t")
      key = field[1] FS field[2] FS field[5]
      if (!(key in first) || output < first[key]) first[key] = output
      seconds[key] = (field[2] - field[1]) / 1000
    }
    for (key in first) printf "%.2f\t%s\n", seconds[key], first[key]
  }' "$log")

printf '%8s %6s  %s\n' seconds jobs folder
awk -F'\t' '{
    folder = $2
    sub(/\/CMakeFiles\/.*/, "", folder)  # host/cli/CMakeFiles/mneme_cli.dir/... is of host/cli
    if (folder == $2 && !sub(/\/[^\/]*$/, "", folder)) folder = "."
    seconds[folder] += $1; jobs[folder]++; all += $1; count++
  }
  END {
    for (folder in seconds) printf "%8.1f %6d  %s\n", seconds[folder], jobs[folder], folder
    printf "%8.1f %6d  all\n", all, count
  }' <<<"$jobs" | sort -rn
if ((files > 0)); then
  printf '\n%8s  %s\n' seconds job
  sort -rn <<<"$jobs" | awk -F'\t' -v most="$files" 'NR <= most { printf "%8.1f  %s\n", $1, $2 }'
fi
