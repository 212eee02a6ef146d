#!/usr/bin/env bash
# Runs everything that needs a GPU, and ends in one table.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_cuda.sh [--device DEVICE] [--torch DIR] [--no-apt] [--jobs N] [--built] [--only STEP]... [--minutes N]
                             [--again] [--python PROGRAM] [--out DIR]

On a machine with a GPU: builds program, plugins and tests with CUDA sources (build/cuda), then runs, what tells most first,
  kernels     every test of a CUDA kernel, the plugins' and the host's, against its reference in double precision; losses over a
              vocabulary against the operations
  device      the tests of opening and naming devices, of CUDA graphs and of padded products, and that a step of generation waits for
              one only once
  golden      the official numbers (tests/golden), with every model on the device
  attention   the host's own attention (model.attention_kernel = "fused"): golden numbers with it, and its speed over
              LibTorch's operations (attention_bench); LibTorch's attention kernels against the operations
  rivals      mneme beside compiled PyTorch, a step for each part of scripts/bench/compare_gpu.py (where Python has PyTorch)
  ncu         the kernels of a training step of enwik8 and of GPT-2 by time, from NVIDIA's ncu (where it is there)
  resume      a training that goes on from its middle against one that was not interrupted, each memory, in f32 and in bf16
  replay      trainings with train.replay = "on" against those with hooks, each memory, in f32 and in bf16, to the last digit
  precision   200 steps of configs/enwik8.toml at 2 layers, in f32 and in bf16, three seeds of each, on the pages of docs/: the losses of
              a seed differ by less than those of f32 between seeds
  evaluation  what the training on the device gives when it is evaluated there and on the CPU
  validate    what mneme plugins validate checks on a device, with memories that it has to find faults in
  python      memories in Python: functions of fla-core and of Triton train, an interrupt saves, memory that is used up is named
              (where Python has PyTorch; fla-core where it has it)
  ranks       sums of gradients over ranks; trainings under mpirun with one rank, whose gradients go through NCCL, against
              those without a launcher, each memory (where mpirun is there and the program has MPI)
  speed       tokens a second of training with each memory on the device, over those without a memory
  sanitizers  the kernels' tests of random shapes under memcheck, racecheck and synccheck of NVIDIA's compute-sanitizer
and prints a table of them. All steps run, also after one that failed; a test that was skipped for want of a device
counts as failed. Steps that passed before with this commit, program and device are not run again: DIR/passed.tsv lists them.
Ends with 1 when a step failed, else with 2 when the time was over before all had run. About 25 minutes with 16 cores.

  --device DEVICE  cuda (default), cuda:N or cpu; with cpu, what needs no GPU is run on the CPU, to try this script
  --torch DIR      use the LibTorch in DIR; --torch and --no-apt as in scripts/setup.sh
  --built          take what build/cuda holds: nothing is installed or compiled
  --only STEP      run this step alone; may be given several times. evaluation needs the runs of resume
  --minutes N      start no step after so many minutes; the next call goes on
  --again          run also what passed before
  --python PROGRAM of rivals, ncu and python: Python 3.11 with PyTorch (default python3)
  --jobs N         compile and test with N processes (default: as many as fit)
  --out DIR        where logs and runs are put (default build/cuda_check)
TEXT
}

device=cuda
jobs=$(build_jobs)
out=build/cuda_check
is_built=no
is_again=no
seconds=
python=python3
readonly all_steps="kernels device golden attention rivals ncu resume replay precision evaluation validate python ranks speed sanitizers"
only=()
setup_arguments=()
cmake_arguments=()
while (($#)); do
  case $1 in
    --device)
      [[ ${2:-} =~ ^(cpu|cuda(:[0-9]+)?)$ ]] || fail "--device needs cuda, cuda:N or cpu, got '${2:-}'"
      device=$2
      shift
      ;;
    --torch)
      (($# >= 2)) || fail "--torch needs a folder: the one that holds LibTorch's include/ and lib/"
      setup_arguments+=(--torch "$2")
      cmake_arguments+=("-DMNEME_TORCH=$(realpath -m "$2")")
      shift
      ;;
    --no-apt) setup_arguments+=("$1") ;;
    --built) is_built=yes ;;
    --again) is_again=yes ;;
    --minutes)
      [[ ${2:-} =~ ^[0-9]*[.]?[0-9]+$ && ${2:-} =~ [1-9] ]] || fail "--minutes needs a number above 0, got '${2:-}'"
      seconds=$(awk -v m="$2" 'BEGIN { print int(60 * m + .5) }')
      shift
      ;;
    --python)
      command -v "${2:-}" >/dev/null || fail "--python: there is no program '${2:-}'"
      python=$2
      shift
      ;;
    --only)
      [[ " $all_steps " == *" ${2:-} "* ]] || fail "--only needs one of: $all_steps; got '${2:-}'"
      only+=("$2")
      shift
      ;;
    --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--jobs needs a number of at least 1, got '${2:-}'"
      jobs=$2
      shift
      ;;
    --out)
      (($# >= 2)) || fail "--out needs a folder"
      out=$2
      shift
      ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done
if [[ $device != cpu ]]; then
  has_gpu || fail "nvidia-smi lists no GPU; --device cpu tries what needs none"
  command -v nvcc >/dev/null || fail "no nvcc on PATH: the CUDA sources cannot be compiled; install the CUDA toolkit"
fi

out=$(realpath -m "$out")
readonly memories=(none xl_cache compressive continuous_ltm lamemo)
readonly kernel_programs=(kernel_test xl_cache_kernel_test compressive_kernel_test continuous_ltm_kernel_test lamemo_kernel_test
  recurrence_kernel_test)
mkdir -p "$out"
names=() left=() results=() times=() figures=()
# What runs here is small, and more threads make it slower.
export OMP_NUM_THREADS=1

# What the results of a step depend on: commit and changes, program, device. Set after the build.
key=

# step NAME FUNCTION [argument...]: runs it, its output into NAME.log. FUNCTION may set `figure`; fails with its status, but for 77:
# there is nothing here that could run it.
step() {
  local name=$1 begun=$SECONDS result=ok status=0 before
  shift
  if [[ -n $key && $is_again == no ]] && before=$(awk -F'\t' -v n="$name" -v k="$key" '$1 == n && $2 == k { found = $0 }
      END { if (found == "") exit 1; print found }' "$out/passed.tsv" 2>/dev/null); then
    IFS=$'\t' read -r _ _ before figure <<<"$before"
    names+=("$name") results+=("ok, before") times+=("$before") figures+=("$figure")
    return 0
  fi
  if [[ -n $seconds ]] && ((SECONDS >= seconds)); then
    left+=("$name")
    return 0
  fi
  say "$name (log: $out/$name.log)"
  figure=
  "$@" >"$out/$name.log" 2>&1 || status=$?
  case $status in
    0) [[ -z $key ]] || printf '%s\t%s\t%d\t%s\n' "$name" "$key" "$((SECONDS - begun))" "$figure" >>"$out/passed.tsv" ;;
    77) result=skipped status=0 ;;
    *)
      result=FAILED
      tail -n 15 "$out/$name.log" | sed 's/^/  | /'
      ;;
  esac
  names+=("$name") results+=("$result") times+=($((SECONDS - begun))) figures+=("$figure")
  return "$status"
}

build() {
  local arguments=(-DMNEME_TESTS=ON -DMNEME_BENCHMARKS=ON "${cmake_arguments[@]}")
  if [[ $device == cpu ]]; then arguments+=(-DMNEME_CUDA=OFF); else arguments+=(-DMNEME_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native); fi
  cmake --preset cuda "${arguments[@]}" && cmake --build build/cuda -j "$jobs" || return 1
  figure="$(git rev-parse --short HEAD 2>/dev/null || echo "no commit"), $jobs processes"
}

# Whether the user wants this step.
is_wanted() { ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]; }

# "12 tests passed", of the output of a test program.
passed_of() { sed -n 's/^\[  PASSED  \] \([0-9]* tests\?\)\.$/\1 passed/p' "$1"; }

device() {
  build/cuda/tests/tensor_test --gtest_filter='Device.*' || return 1
  figure=$(passed_of "$out/device.log")
  if [[ $device != cpu ]]; then
    build/cuda/tests/generate_test --gtest_filter='Devices/StepOnCuda.*' | tee "$out/waits.log" || return 1
    build/cuda/tests/tensor_test --gtest_filter='GraphsOnAGpu.*:PaddedProductOnAGpu.*' | tee "$out/graphs.log" || return 1
    figure+="; CUDA graphs, padded products: $(passed_of "$out/graphs.log"); a step of generation waits once: $(passed_of "$out/waits.log")"
    ! grep -q '^\[  SKIPPED \]' "$out/graphs.log" || return 1
    ! grep -q '^\[  SKIPPED \]' "$out/waits.log" || return 1
  fi
  build/cuda/bin/mneme doctor
  [[ $device == cpu ]] || grep -q '^ok  CUDA in LibTorch' "$out/device.log"
}

# The checks devices.* of the memories, and of a plugin that breaks what they check.
validate() {
  local log=$out/validate.log status=0 name options
  build/cuda/tests/validate_test --gtest_filter='Flawless.*:All/Faults.*/cuda_*' || status=1
  while read -r name options; do
    # shellcheck disable=SC2086  # several words
    build/cuda/bin/mneme plugins validate "build/cuda/$name.so" --only devices $options || status=1
  done <<'TEXT'
plugins/xl_cache --set rows=8
plugins/compressive --set rows=8 --set compressed_rows=6
plugins/continuous_ltm --set basis=8 --set sticky=true
plugins/lamemo --set rows=8
plugins/gla
plugins/mamba2 --set key_width=8
plugins/gated_deltanet
plugins/kda
examples/gated_delta
TEXT
  figure="$(grep -c '^devices.* pass' "$log") checks passed; $(sed -n 's/^\[  PASSED  \] \([0-9]* tests\?\)\.$/\1/p' "$log") of those that look for faults"
  ! grep -q '^\[  SKIPPED \]' "$log" && return "$status"
}

# Skipped where Python has no PyTorch. Without fla-core one test of these is skipped, and the figure says so.
python_memories() {
  local log=$out/python.log
  if ! "$python" -c 'import torch'; then
    figure="$python has no PyTorch (--python)"
    return 77
  fi
  MNEME_PROGRAM=$root/build/cuda/bin/mneme PYTHONPATH=$root/python "$python" -B python/tests/memory/test_device.py -v 2>&1 || return 1
  figure="$(grep -c ' ok$' "$log") passed$(sed -n "s/.* skipped [\"']\(.*\)[\"']$/; skipped: \1/p" "$log" | sort -u | tr -d '\n')"
  [[ $device == cpu ]] || ! grep -q "skipped 'torch.cuda.is_available() is false'" "$log"
}

golden() {
  MNEME_TEST_DEVICE=$device build/cuda/tests/golden_test || return 1
  figure=$(passed_of "$out/golden.log")
  ! grep -q '^\[  SKIPPED \]' "$out/golden.log"
}

attention() {
  local log=$out/attention.log arguments=(1)
  [[ $device == cpu ]] || arguments=(5 "$device")
  MNEME_TEST_DEVICE=$device MNEME_TEST_ATTENTION=fused build/cuda/tests/golden_test || return 1
  figure="golden: $(passed_of "$log")"
  if [[ $device != cpu ]]; then
    build/cuda/tests/backbone_library --gtest_filter='Devices/LibraryOnCuda.*' | tee "$out/library.log" || return 1
    figure+="; LibTorch's kernels: $(passed_of "$out/library.log")"
    ! grep -q '^\[  SKIPPED \]' "$out/library.log" || return 1
  fi
  build/cuda/bench/attention_bench "${arguments[@]}" | tee "$out/attention_bench.txt" || return 1
  [[ $device == cpu ]] || figure+="; times LibTorch's speed, least and most of all shapes: "
  figure+=$(awk '/ (f32|bf16) / { for (i = 1; i < NF; ++i) if ($i == "f32" || $i == "bf16") print $i, $(i + 1) }' \
    "$out/attention_bench.txt" | sort -k1,1 -k2,2g | awk '{ if ($1 in least) most[$1] = $2; else least[$1] = most[$1] = $2 }
      END { for (type in least) printf "%s %s to %s  ", type, least[type], most[type] }')
  ! grep -q '^\[  SKIPPED \]' "$log"
}

# kernels_with LOG-ENDING FILTER [word...]: the tests on the device of every program that has such, side by side, with the words before
# the program; counts what passed into `passed`. Fails as a program does, and when one ran no test or skipped any.
kernels_with() {
  local ending=$1 filter=$2 program status=0 log pids=()
  shift 2
  for program in "${kernel_programs[@]}"; do
    "$@" "build/cuda/tests/$program" "--gtest_filter=$filter" >"$out/$program.$ending" 2>&1 &
    pids+=($!)
  done
  passed=0
  for i in "${!pids[@]}"; do
    log=$out/${kernel_programs[i]}.$ending
    wait "${pids[i]}" || status=1
    grep -q '^\[  PASSED  \] [1-9]' "$log" && ! grep -q '^\[  SKIPPED \]' "$log" || status=1
    passed=$((passed + $(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\?\.$/\1/p' "$log") + 0))
    tail -n 60 "$log"
  done
  return "$status"
}

kernels() {
  local passed status=0
  kernels_with kernels.log 'Devices/*/Cuda' || status=1
  build/cuda/tests/backbone_unit --gtest_filter='DeviceNllOnAGpu.*:FusedOnAGpu.*' | tee "$out/losses.log" || status=1
  ! grep -q '^\[  SKIPPED \]' "$out/losses.log" || status=1
  figure="$passed passed; losses over a vocabulary, dropout of attention: $(passed_of "$out/losses.log")"
  return "$status"
}

# The tools side by side; seconds limited, because a kernel can be a hundred times as slow under them.
sanitizers() {
  local tool status=0 pids=() passed=0 clean
  if ! command -v compute-sanitizer >/dev/null; then
    echo "there is no compute-sanitizer on PATH"
    return 1
  fi
  for tool in memcheck racecheck synccheck; do
    kernels_with "$tool.log" '*RandomShapes*/Cuda:*Edges*/Cuda:*Histogram*EveryShape*/Cuda:*Pool*Every*/Cuda' \
      timeout 150 compute-sanitizer --tool "$tool" --error-exitcode 9 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  figure=
  for tool in memcheck racecheck synccheck; do
    clean=$(grep -l 'SUMMARY: 0 \(errors\|hazards\)' "$out"/*_test."$tool.log" | wc -l)
    figure+="$tool $clean of ${#kernel_programs[@]} programs clean  "
    ((clean == ${#kernel_programs[@]})) || status=1
  done
  return "$status"
}

memory_file() { if [[ $1 == none ]]; then echo configs/memory/none.toml; else echo "configs/quickstart/memory/$1.toml"; fi; }
mneme() { build/cuda/bin/mneme "$@" --device "$device"; }
train() { mneme train "$@" --quiet; }
# The number of `key` in the last line of a file that has it.
last_number() { grep -o "\"$2\":[^,}]*" "$1" | tail -n 1 | cut -d: -f2; }
# Of a run's last training step.
last_loss() { grep '"kind":"step"' "$1/metrics.jsonl" | tail -n 1 | grep -o '"loss":[^,]*' | cut -d: -f2; }
# Of all steps, as text.
losses() { grep -o '"step":[0-9]*,"loss":[^,]*' "$1/metrics.jsonl"; }
difference() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; printf "%.1e", d < 0 ? -d : d }'; }
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b) }'; }

# rivals PART: a part of compare_gpu.py; the figure has the ratio of each rival.
rivals() {
  local arguments=(--only "$1" --mneme build/cuda/bin/mneme --device "$device" --json "$out/rivals-$1.json")
  [[ $device != cpu ]] || arguments+=(--small --steps 2)
  if ! "$python" -c 'import sys, torch; sys.exit(sys.version_info < (3, 11))'; then
    figure="$python has no PyTorch, or is older than 3.11 (--python)"
    return 77
  fi
  "$python" -B scripts/bench/compare_gpu.py "${arguments[@]}" || return 1
  figure=$("$python" - "$out/rivals-$1.json" <<'PYTHON'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
print(f"{rows[0]['side']} {rows[0]['tokens_per_second']:,.0f} tokens/s", *(f"{row['side']} {row['ratio']:.2f}" for row in rows if row["ratio"]), sep="; ")
PYTHON
  )
}

# ncu PART: the figure has the share of each kind of kernel.
ncu_table() {
  if ! command -v ncu >/dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    figure="there is no ncu on PATH, or $python is older than 3.11 (--python)"
    return 77
  fi
  "$python" -B scripts/bench/profile_step.py "$1" --mneme build/cuda/bin/mneme --device "$device" || return 1
  figure=$(awk '/ launches, / { printf "%s", $0 } $4 == "kind" { on = 1; next } $4 == "kernel" { exit }
    on { share = $2; $1 = $2 = $3 = ""; sub(/^ +/, ""); printf "; %s %s %%", $0, share }' "$out/ncu-$1.log")
}

# A training of the quickstart: train_copy RUN MEMORY TYPE [argument...]. In bf16 no width is a multiple of 8, so that copies of
# weights have room and products are padded.
train_copy() {
  local run=$1 memory=$2 type=$3 widths=()
  shift 3
  [[ $type != bf16 ]] || widths=(--set model.head_width=10 --set model.width=36 --set model.ff=100)
  rm -rf "$run"
  train configs/quickstart/copy.toml --memory "$(memory_file "$memory")" --run "$run" --set train.precision="$type" "${widths[@]}" \
    --set train.warmup=10 --set train.log_every=1 "$@"
}
# The name of a run in a type.
named() { if [[ $2 == f32 ]]; then echo "$1"; else echo "$1-$2"; fi; }

# A training of 60 steps, and its copy again from step 30. Equal losses to rounding; the figure says whether to the last digit.
resume() {
  local memory type run equal=0 status=0 far largest=0
  for memory in "${memories[@]}"; do
    for type in f32 bf16; do
      run=$out/runs/$(named "$memory" "$type")
      rm -rf "$run-again"
      train_copy "$run" "$memory" "$type" --set train.steps=60 --set train.save_every=30 || return 1
      cp -r "$run" "$run-again"
      train --resume "$run-again" --checkpoint 30 || return 1
      far=$(difference "$(last_loss "$run")" "$(last_loss "$run-again")")
      echo "$memory, $type: last losses differ by $far"
      at_most "$far" 1e-4 || status=1
      at_most "$far" "$largest" || largest=$far
      if cmp -s <(losses "$run") <(losses "$run-again"); then equal=$((equal + 1)); fi
    done
  done
  figure="all losses equal to the last digit for $equal of $((2 * ${#memories[@]})) trainings; the last ones differ by at most $largest"
  return "$status"
}

# 40 steps with dropout and accumulation, by hooks and recorded. A line of train.replay says what is no graph, and why.
replay() {
  local memory type mode run equal=0 graphs=0
  for memory in "${memories[@]}"; do
    for type in f32 bf16; do
      run=$out/runs/replay-$memory-$type
      for mode in off on; do
        train_copy "$run-$mode" "$memory" "$type" --set train.steps=40 --set train.accumulate=2 --set model.dropout=0.1 \
          --set train.replay="$mode" || return 1
      done
      if cmp <(losses "$run-off") <(losses "$run-on"); then equal=$((equal + 1)); fi
      grep 'train.replay' "$run-on/log.txt" || graphs=$((graphs + 1))
    done
  done
  figure="losses equal to the last digit for $equal of $((2 * ${#memories[@]})) trainings; $graphs without a line that says what is no graph"
  ((equal == 2 * ${#memories[@]}))
}

# The mean loss of a run's last quarter, in f32 and bf16, over three seeds.
precision() {
  local type seed run text=$out/pages steps=200 arguments=(--set model.layers=2)
  if [[ $device == cpu ]]; then
    steps=8
    arguments+=(--set train.lanes=2)
  fi
  rm -rf "$text" "$out"/runs/precision-*
  cat README.md docs/*.md >"$text.txt"
  build/cuda/bin/mneme data prepare --train "$text.txt" --split 0.9,0.05,0.05 --out "$text" --quiet || return 1
  for type in f32 bf16; do
    for seed in 1 2 3; do
      run=$out/runs/precision-$type-$seed
      train configs/enwik8.toml "${arguments[@]}" --run "$run" --set data.prepared="$text" --set train.steps="$steps" \
        --set train.seed="$seed" --set train.precision="$type" --set train.log_every=1 || return 1
      losses "$run" | awk -F'[:,]' -v type="$type" -v seed="$seed" -v from=$((steps * 3 / 4)) \
        '$2 > from { sum += $4; n++ } END { print type, seed, sum / n }'
    done
  done | tee "$out/precision.txt" || return 1
  figure=$(awk '$1 == "f32" { f32[$2] = $3; if (!n++ || $3 < least) least = $3; if ($3 > most) most = $3 }
    $1 == "bf16" { d = $3 - f32[$2]; if (d < 0) d = -d; if (d > far) far = d; m++ }
    END { if (n != 3 || m != 3) exit 1
      printf "bf16 differs from f32 by at most %.4f nats, seeds of f32 by %.4f", far, most - least; exit !(far < most - least) }' \
    "$out/precision.txt")
}

# The runs of `resume`, evaluated here and on the CPU.
evaluation() {
  local memory status=0 largest=0 far where
  for memory in "${memories[@]}"; do
    for where in "$device" cpu; do
      build/cuda/bin/mneme eval "$out/runs/$memory" --no-store --quiet --device "$where" --json "$out/$where.json" || return 1
      mv "$out/$where.json" "$out/$where-$memory.json"
    done
    far=$(difference "$(last_number "$out/$device-$memory.json" loss)" "$(last_number "$out/cpu-$memory.json" loss)")
    echo "$memory: losses differ by $far nats"
    at_most "$far" 1e-4 || status=1
    at_most "$far" "$largest" || largest=$far
  done
  figure="losses differ by at most $largest nats"
  return "$status"
}

# The largest difference of two runs' losses, step by step.
largest_difference() {
  paste -d, <(losses "$1") <(losses "$2") |
    awk -F'[:,]' '{ d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d } END { if (NR) printf "%.1e", most }'
}

# 40 steps with dropout and accumulation, with the device alone and as the one rank of a launcher.
ranks() {
  local memory run arguments equal=0 status=0 far largest=0
  build/cuda/tests/train_unit --gtest_filter='GradientSumsOnAGpu.*' || return 1
  figure=$(passed_of "$out/ranks.log")
  if [[ $device != cpu ]] && grep -q '^\[  SKIPPED \]' "$out/ranks.log"; then return 1; fi
  if ! command -v mpirun >/dev/null || ! ldd build/cuda/bin/mneme | grep libmpi >/dev/null; then
    figure+="; no mpirun, or no MPI in the program: nothing was trained"
    return
  fi
  for memory in "${memories[@]}"; do
    run=$out/runs/rank-$memory
    rm -rf "$run" "$run-launched"
    arguments=(train configs/quickstart/copy.toml --memory "$(memory_file "$memory")" --device "$device" --quiet
      --set train.steps=40 --set train.warmup=10 --set train.log_every=1 --set train.accumulate=2 --set model.dropout=0.1)
    build/cuda/bin/mneme "${arguments[@]}" --run "$run" || return 1
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --bind-to none -n 1 build/cuda/bin/mneme \
      "${arguments[@]}" --run "$run-launched" </dev/null || return 1
    grep -q 'rank trains' "$run-launched/log.txt" || return 1
    if grep 'summed through the memory of the CPU' "$run-launched/log.txt"; then return 1; fi
    far=$(largest_difference "$run" "$run-launched")
    echo "$memory: losses differ by at most $far"
    at_most "$far" 1e-4 || status=1
    at_most "$far" "$largest" || largest=$far
    if cmp -s <(losses "$run") <(losses "$run-launched"); then equal=$((equal + 1)); fi
  done
  figure+="; under mpirun losses differ by at most $largest, equal to the last digit for $equal of ${#memories[@]} memories"
  return "$status"
}

# Every memory behind a body of a real size, three rounds in turns; the median of the rounds' ratios. The first steps of a
# training are left out: they reserve memory and choose algorithms.
speed() {
  local memory round file=$out/speed.csv steps=30
  [[ $device == cpu ]] && steps=2
  : >"$file"
  for round in 1 2 3; do
    for memory in "${memories[@]}"; do
      rm -rf "$out/runs/speed"
      train configs/quickstart/copy.toml --memory "$(memory_file "$memory")" --run "$out/runs/speed" \
        --set model.layers=12 --set model.heads=8 --set model.head_width=64 --set model.width=512 --set model.ff=2048 \
        --set data.valid_sequences=64 --set train.lanes=16 --set train.steps=$((2 * steps)) --set train.warmup=0 --set train.log_every="$steps" || return 1
      awk -v m="$memory" -v r="$round" '/"kind":"step"/ {
          match($0, /"seconds":[0-9.e+-]+/); s = substr($0, RSTART + 10, RLENGTH - 10)
          match($0, /"tokens":[0-9]+/); t = substr($0, RSTART + 9, RLENGTH - 9)
          if (n++) { printf "%s,%s,%.6g\n", r, m, (t - t0) / (s - s0) }
          s0 = s; t0 = t
        }' "$out/runs/speed/metrics.jsonl" >>"$file"
    done
  done
  cat "$file"
  figure=$(for memory in "${memories[@]:1}"; do
    awk -F, -v m="$memory" '$2 == "none" { none[$1] = $3 } $2 == m { of[$1] = $3 }
      END { for (r in of) print of[r] / none[r] }' "$file" | sort -g | awk -v m="$memory" '{ a[NR] = $1 }
      END { printf "%s %.2f  ", m, a[int((NR + 1) / 2)] }'
  done)
}

if [[ $device == cpu ]]; then
  on="CPU, $(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)"
else
  on="$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1), $(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/nvcc \1/p')"
fi
say "checking on: $on"
status=0
if [[ $is_built == yes ]]; then
  [[ -x build/cuda/bin/mneme ]] || fail "--built: there is no build/cuda/bin/mneme"
else
  bash scripts/setup.sh "${setup_arguments[@]}"
fi
if [[ $is_built == no ]] && ! step build build; then
  status=1
  all=()
else
  read -r -a all <<<"$all_steps"
fi
key="$(git rev-parse HEAD 2>/dev/null || echo unknown)$(git diff HEAD 2>/dev/null | cksum | cut -d' ' -f1) $(sha256sum build/cuda/bin/mneme 2>/dev/null | cut -c1-16) $device"
for name in "${all[@]}"; do
  is_wanted "$name" || continue
  case $name in
    kernels | validate | sanitizers) [[ $device == cpu ]] || step "$name" "$name" || status=1 ;;
    rivals)
      for part in enwik8 gpt2 wt103 smollm gpt2_cache sorting generation; do step "rivals-$part" rivals "$part" || status=1; done
      ;;
    python) step python python_memories || status=1 ;;
    ncu) [[ $device == cpu ]] || for part in enwik8 gpt2; do step "ncu-$part" ncu_table "$part" || status=1; done ;;
    *) step "$name" "$name" || status=1 ;;
  esac
done

printf '\n%s, commit %s\n' "$on" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
printf '| step | result | seconds | |\n|---|---|---|---|\n'
for i in "${!names[@]}"; do
  printf '| %s | %s | %d | %s |\n' "${names[i]}" "${results[i]}" "${times[i]}" "${figures[i]}"
done
if ((${#left[@]})); then
  printf 'the time is over; left for the next call: %s\n' "${left[*]}"
  ((status != 0)) || status=2
fi
exit "$status"
