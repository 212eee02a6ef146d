#!/usr/bin/env bash
# Runs everything that needs a GPU, and ends in one table.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check_cuda.sh [--device DEVICE] [--torch DIR] [--no-apt] [--jobs N] [--out DIR]

On a machine with a GPU: builds program, plugins and tests with CUDA sources (build/cuda), then runs
  kernels     every test of a plugin's CUDA kernel, against its reference in double precision
  device      the tests of opening and naming devices
  golden      the official numbers (tests/golden), with every model on the device
  memcheck, racecheck, synccheck
              the kernels' tests of random shapes under NVIDIA's compute-sanitizer
  resume      a training that goes on from its middle against one that was not interrupted, each memory
  evaluation  what the training on the device gives when it is evaluated there and on the CPU
  speed       tokens a second of training with each memory on the device, over those without a memory
and prints a table of them. All steps run, also after one that failed; a test that was skipped for want of a device
counts as failed. Ends with 1 when one failed. About 9 minutes with 16 cores.

  --device DEVICE  cuda (default), cuda:N or cpu; with cpu, what needs no GPU is run on the CPU, to try this script
  --torch DIR      use the LibTorch in DIR; --torch and --no-apt as in scripts/setup.sh
  --jobs N         compile and test with N processes (default: as many as fit)
  --out DIR        where logs and runs are put (default build/cuda_check)
TEXT
}

device=cuda
jobs=$(build_jobs)
out=build/cuda_check
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
if [[ $device != cpu ]]; then
  has_gpu || fail "nvidia-smi lists no GPU; --device cpu tries what needs none"
  command -v nvcc >/dev/null || fail "no nvcc on PATH: the CUDA sources cannot be compiled; install the CUDA toolkit"
fi

out=$(realpath -m "$out")
readonly memories=(none xl_cache compressive continuous_ltm lamemo)
mkdir -p "$out"
rm -rf "$out/runs"
names=() results=() times=() figures=()

# step NAME FUNCTION [argument...]: runs it, its output into NAME.log. FUNCTION may set `figure`; fails with its status.
step() {
  local name=$1 begun=$SECONDS result=ok
  shift
  say "$name (log: $out/$name.log)"
  figure=
  "$@" >"$out/$name.log" 2>&1 || result=FAILED
  if [[ $result == FAILED ]]; then
    tail -n 15 "$out/$name.log" | sed 's/^/  | /'
  fi
  names+=("$name") results+=("$result") times+=($((SECONDS - begun))) figures+=("$figure")
  [[ $result == ok ]]
}

build() {
  local arguments=(-DMNEME_TESTS=ON -DMNEME_BENCHMARKS=OFF "${cmake_arguments[@]}")
  if [[ $device == cpu ]]; then arguments+=(-DMNEME_CUDA=OFF); else arguments+=(-DMNEME_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native); fi
  cmake --preset cuda "${arguments[@]}" && cmake --build build/cuda -j "$jobs" || return 1
  figure="$(git rev-parse --short HEAD 2>/dev/null || echo "no commit"), $jobs processes"
}

# tests ctest-argument...: fails as ctest does, and when a test was skipped or none ran.
tests() {
  local status=0 passed failed skipped
  rm -f "$out/results.xml"
  ctest --test-dir build/cuda --output-on-failure --no-tests=error -j "$jobs" --output-junit "$out/results.xml" \
    --test-output-size-passed 400000 "$@" || status=1
  [[ -s $out/results.xml ]] || return 1
  read -r passed failed skipped < <(count_results "$out/results.xml")
  figure="$passed passed, $failed failed, $skipped skipped"
  ((status == 0 && skipped == 0))
}

# What a test program says of the device: its tests are no entries of ctest of their own.
devices() {
  build/cuda/tests/train_unit --gtest_filter='Device.*' || return 1
  figure=$(sed -n 's/^\[  PASSED  \] \([0-9]* tests\?\)\.$/\1 passed/p' "$out/device.log")
  build/cuda/bin/mneme doctor
  [[ $device == cpu ]] || grep -q '^ok  CUDA in LibTorch' "$out/device.log"
}

golden() { MNEME_TEST_DEVICE=$device tests -L golden; }

# sanitizer TOOL: seconds limited, because a kernel can be a hundred times as slow under it.
sanitizer() {
  local plugin status=0
  for plugin in xl_cache compressive continuous_ltm lamemo; do
    timeout 60 compute-sanitizer --tool "$1" --error-exitcode 9 "build/cuda/tests/${plugin}_kernel_test" \
      '--gtest_filter=*RandomShapes*/Cuda:*Edges*/Cuda' || status=1
  done
  figure=$(grep -c 'ERROR SUMMARY: 0 errors' "$out/$1.log" || true)" of 4 programs without an error"
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

# A training of 60 steps, and its copy again from step 30. Equal losses to rounding; the figure says whether to the last digit.
resume() {
  local memory run equal=0 status=0 far largest=0
  for memory in "${memories[@]}"; do
    run=$out/runs/$memory
    train configs/quickstart/copy.toml --memory "$(memory_file "$memory")" --run "$run" --set train.steps=60 \
      --set train.warmup=10 --set train.save_every=30 --set train.log_every=1 || return 1
    cp -r "$run" "$run-again"
    train --resume "$run-again" --checkpoint 30 || return 1
    far=$(difference "$(last_loss "$run")" "$(last_loss "$run-again")")
    echo "$memory: last losses differ by $far"
    at_most "$far" 1e-4 || status=1
    at_most "$far" "$largest" || largest=$far
    if cmp -s <(losses "$run") <(losses "$run-again"); then equal=$((equal + 1)); fi
  done
  figure="all losses equal to the last digit for $equal of ${#memories[@]} memories; the last ones differ by at most $largest"
  return "$status"
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
bash scripts/setup.sh "${setup_arguments[@]}"
status=0
if step build build; then
  [[ $device == cpu ]] || step kernels tests -R '^Devices/.*/Cuda' || status=1
  step device devices || status=1
  step golden golden || status=1
  if [[ $device != cpu ]]; then
    for tool in memcheck racecheck synccheck; do
      if command -v compute-sanitizer >/dev/null; then
        step $tool sanitizer $tool || status=1
      else
        names+=("$tool") results+=("left out") times+=(0) figures+=("no compute-sanitizer on PATH")
      fi
    done
  fi
  if step resume resume; then
    step evaluation evaluation || status=1
    step speed speed || status=1
  else
    status=1
  fi
else
  status=1
fi

printf '\n%s, commit %s\n' "$on" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
printf '| step | result | seconds | |\n|---|---|---|---|\n'
for i in "${!names[@]}"; do
  printf '| %s | %s | %d | %s |\n' "${names[i]}" "${results[i]}" "${times[i]}" "${figures[i]}"
done
exit "$status"
