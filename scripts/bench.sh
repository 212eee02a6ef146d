#!/usr/bin/env bash
# Runs the benchmarks, and writes what they print into docs/performance/ and docs/performance.md.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/bench.sh [--rounds N] [--write-docs [PAGE]] [--list] [BENCH...]
       scripts/bench.sh --against-official DIR [--against-official DIR] [--python PROGRAM] [--rounds N] [--write-docs [PAGE]]

Builds the programs of bench/ in build/release and runs them and scripts/bench/*_bench.py, or those named. Each compares two ways of
computing the same in turns in one run, after it has checked that their results are equal, and prints ratios and shares of the
processor's peak. Use a machine on which nothing else runs. All of them take about half an hour on 2 cores.

  --rounds N           rounds of those that count them (default 3)
  --write-docs [PAGE]  write what each printed to NAME.csv in the folder beside PAGE (default docs/performance.md), with processor
                       and commit, and draw its place in PAGE (scripts/bench/bench_tables.py; needs Python 3.9)
  --list               print their names
  --against-official DIR
                       instead: whole evaluations and trainings against the official code in DIR, a clone of
                       kimiyoung/transformer-xl or of thu-coai/LaMemo (scripts/bench/compare_official.py)
  --python PROGRAM     with --against-official: a Python that has PyTorch, NumPy and safetensors (default python3)
TEXT
}

# Name and arguments; N stands for the rounds.
readonly programs=(
  "hooks_bench"
  "python_hooks_bench"
  "ops_bench --benchmark_min_time=0.05"
  "linear_bench N"
  "attention_bench N"
  "softmax_bench N"
  "stack_bench N"
  "growth_bench N"
  "small_ops_bench N"
  "generation_bench N 1 16"
  "attention_length_bench"
  "digit_decoding_bench"
  "layer_bench N"
  "expectation_bench N"
  "length_bench 1000000"
  "compression_bench N"
  "reconstruction_bench N"
  "lamemo_bench N"
  "look_ahead_bench N"
  "recurrence_bench N"
  "start_up_bench.py N"
  "threads_bench.py N"
  "ranks_bench.py N"
)

rounds=3
page=
python=python3
official=()
chosen=()
while (($#)); do
  case $1 in
    --rounds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--rounds needs a number of at least 1, got '${2:-}'"
      rounds=$2
      shift
      ;;
    --write-docs)
      page=docs/performance.md
      if [[ ${2:-} == *.md ]]; then
        page=$2
        shift
      fi
      [[ -f $page ]] || fail "--write-docs: there is no page $page"
      ;;
    --against-official)
      [[ -f ${2:-}/pytorch/mem_transformer.py ]] ||
        fail "--against-official needs a clone of kimiyoung/transformer-xl or of thu-coai/LaMemo, and '${2:-}' has no pytorch/mem_transformer.py"
      official+=("$2")
      shift
      ;;
    --python)
      command -v "${2:-}" >/dev/null || fail "--python: there is no program '${2:-}'"
      python=$2
      shift
      ;;
    --list)
      printf '%s\n' "${programs[@]%% *}"
      exit 0
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      usage >&2
      fail "unknown argument '$1'"
      ;;
    *) chosen+=("$1") ;;
  esac
  shift
done
for name in "${chosen[@]}"; do
  printf '%s\n' "${programs[@]%% *}" | grep -qxF -- "$name" || fail "no benchmark is called '$name'; --list prints their names"
done
is_chosen() { ((${#chosen[@]} == 0)) || printf '%s\n' "${chosen[@]}" | grep -qxF -- "$1"; }

if ((${#official[@]})); then
  ((${#chosen[@]} == 0)) || fail "--against-official runs no other benchmark; leave out '${chosen[0]}'"
  "$python" -c 'import numpy, safetensors, torch' 2>/dev/null ||
    fail "'$python' lacks PyTorch, NumPy or safetensors; make one with: python3 -m venv DIR && DIR/bin/pip install torch==2.11.0 numpy safetensors, and give --python DIR/bin/python"
  build_preset release all
else
  build_preset release all -DMNEME_BENCHMARKS=ON
fi
processor=$(awk -F': ' '/^model name/ { name = $2 } /^flags/ { flags = $2 }
  END { printf "%s (%s)", name, flags ~ /amx_bf16/ ? "AMX" : flags ~ /avx512_bf16/ ? "AVX-512 with bf16" : flags ~ /avx512f/ ? "AVX-512" : flags ~ /avx2/ ? "AVX2" : "no AVX2" }' /proc/cpuinfo)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[[ -z $(git status --porcelain --untracked-files=no 2>/dev/null) ]] || commit="$commit with changes"
out=build/bench
mkdir -p "$out"

# put NAME COMMAND...: what NAME's log says, into the CSV file and the page.
put() {
  python3 -B scripts/bench/bench_tables.py "$1" "$out/$1.log" --page "$page" --command "${*:2}" --processor "$processor" --commit "$commit"
}

if ((${#official[@]})); then
  say "compare_official.py ${official[*]}"
  "$python" -B scripts/bench/compare_official.py "${official[@]}" --rounds "$rounds" 2>&1 | tee "$out/official.log"
  [[ -z $page ]] || put official compare_official.py ... --rounds "$rounds"
  exit 0
fi

status=0
for entry in "${programs[@]}"; do
  read -r -a command <<<"${entry/ N/ $rounds}"
  name=${command[0]}
  is_chosen "$name" || continue
  say "${command[*]}"
  program=build/release/bench/$name
  [[ $name != *.py ]] || program=scripts/bench/$name
  if ! "$program" "${command[@]:1}" 2>&1 | tee "$out/$name.log"; then
    say "$name failed"
    status=1
    continue
  fi
  if [[ -n $page ]] && ! grep -q '^skipped: ' "$out/$name.log"; then put "$name" "${command[@]}"; fi
done
exit "$status"
