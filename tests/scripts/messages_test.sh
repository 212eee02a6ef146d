#!/usr/bin/env bash
# messages_test.sh CASE PROJECT WORK: one case a call, in the empty folder WORK. Nothing is installed.
set -euo pipefail
case_name=$1 project=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
unset Torch_DIR CMAKE_PREFIX_PATH CUDACXX

die() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# expect_failure PATTERN COMMAND...: COMMAND fails and says PATTERN (line breaks and indents count as one space).
expect_failure() {
  local pattern=$1 output status=0
  shift
  output=$("$@" 2>&1 </dev/null) || status=$?
  ((status != 0)) || die "succeeded, expected a failure: $*"
  tr -s ' \n' ' ' <<<"$output" | grep -qE -e "$pattern" || die "no '$pattern' in the output of: $*"$'\n'"$output"
}

configure() { cmake -S "$project" -B "$work/build" -G Ninja -DMNEME_CUDA=OFF "$@"; }

# A folder that looks like a LibTorch of version $2.$3.
fake_libtorch() {
  mkdir -p "$1/lib" "$1/include/torch/csrc/api/include/torch" "$1/include/torch/headeronly"
  touch "$1/lib/libtorch_cpu.so" "$1/lib/libc10.so" "$1/include/torch/csrc/api/include/torch/torch.h"
  printf '#define TORCH_VERSION_MAJOR %d\n#define TORCH_VERSION_MINOR %d\n#define TORCH_VERSION_PATCH 0\n' "$2" "$3" \
    >"$1/include/torch/headeronly/version.h"
}

case $case_name in
  unknown_argument)
    expect_failure "unknown argument '--torhc'" bash "$project/scripts/setup.sh" --torhc x
    expect_failure "unknown argument '--torhc'" bash "$project/scripts/quickstart.sh" --torhc x
    expect_failure "unknown argument '--nvcc'" bash "$project/scripts/check/check_debootstrap.sh" --nvcc
    expect_failure "unknown argument '--gpu'" bash "$project/scripts/check/check_cuda.sh" --gpu
    expect_failure "unknown argument '--all'" bash "$project/scripts/bench.sh" --all
    expect_failure "unknown argument '--all'" bash "$project/scripts/fuzz.sh" --all
    expect_failure "unknown argument '--all'" bash "$project/scripts/wheel.sh" --all
    expect_failure "unknown argument '--all'" bash "$project/scripts/check/check_python.sh" --all
    expect_failure "unknown argument '--all'" bash "$project/scripts/check/check_wheel.sh" --all
    expect_failure "--python is missing" bash "$project/scripts/check/check_harness.sh"
    ;;
  wheel_without_installation)
    expect_failure "--prefix $work: expected an installation, with bin/mneme in it" bash "$project/scripts/wheel.sh" --prefix "$work"
    expect_failure '--out needs a value' bash "$project/scripts/wheel.sh" --out
    expect_failure "expected a wheel, got '$work/none.whl'" bash "$project/scripts/check/check_wheel.sh" "$work/none.whl"
    expect_failure '--debian 11: expected 12 or 13' bash "$project/scripts/check/check_debootstrap.sh" --debian 11
    expect_failure "--wheel $work/none.whl: there is no such file" \
      bash "$project/scripts/check/check_debootstrap.sh" --wheel "$work/none.whl"
    ;;
  torch_folder_missing_value)
    for script in setup quickstart test check/check_cuda; do
      expect_failure '--torch needs a folder' bash "$project/scripts/$script.sh" --torch
    done
    ;;
  torch_folder_without_libtorch)
    expect_failure "--torch $work: expected lib/libtorch_cpu.so" bash "$project/scripts/setup.sh" --no-apt --torch "$work"
    ;;
  torch_dir_without_libtorch)
    expect_failure "Torch_DIR=$work: expected lib/libtorch_cpu.so" \
      env Torch_DIR="$work" bash "$project/scripts/setup.sh" --no-apt
    ;;
  libtorch_found_in_prefix)
    fake_libtorch "$work/torch" 2 11
    output=$(CMAKE_PREFIX_PATH=/nowhere:$work/torch bash "$project/scripts/setup.sh" --no-apt)
    grep -qF "LibTorch: using $work/torch" <<<"$output" || die "CMAKE_PREFIX_PATH was not used: $output"
    output=$(Torch_DIR=$work/torch/share/cmake/Torch bash -c "mkdir -p '$work/torch/share/cmake/Torch'
      bash '$project/scripts/setup.sh' --no-apt")
    grep -qF "LibTorch: using $work/torch" <<<"$output" || die "Torch_DIR was not used: $output"
    ;;
  cuda_check_without_device)
    expect_failure "--device needs cuda, cuda:N or cpu, got 'gpu'" bash "$project/scripts/check/check_cuda.sh" --device gpu
    mkdir "$work/bin"
    printf '#!/bin/sh\nexit 9\n' >"$work/bin/nvidia-smi"
    chmod +x "$work/bin/nvidia-smi"
    expect_failure "nvidia-smi lists no GPU; --device cpu tries what needs none" \
      env PATH="$work/bin:$PATH" bash "$project/scripts/check/check_cuda.sh" --out "$work/out"
    printf '#!/bin/sh\necho "GPU 0: a GPU"\n' >"$work/bin/nvidia-smi"
    [[ -e /usr/bin/nvcc ]] || expect_failure "no nvcc on PATH: the CUDA sources cannot be compiled" \
      env PATH="$work/bin:/usr/bin:/bin" bash "$project/scripts/check/check_cuda.sh" --out "$work/out"
    [[ ! -e $work/out ]] || die "a refused check made its folder"
    ;;
  cuda_check_goes_on)
    # A tree with programs that say that they ran, tried on the CPU: golden passes, device fails while there is a file `broken`.
    tree=$work/tree
    mkdir -p "$tree/scripts/check" "$tree/build/cuda/bin" "$tree/build/cuda/tests"
    cp "$project/scripts/common.sh" "$tree/scripts/"
    cp "$project/scripts/check/check_cuda.sh" "$tree/scripts/check/"
    printf '#!/bin/sh\necho doctor\n' >"$tree/build/cuda/bin/mneme"
    printf '#!/bin/sh\necho golden >>"%s/ran"; sleep 1; echo "[  PASSED  ] 3 tests."\n' "$tree" >"$tree/build/cuda/tests/golden_test"
    printf '#!/bin/sh\necho device >>"%s/ran"; ! [ -e "%s/broken" ]\n' "$tree" "$tree" >"$tree/build/cuda/tests/tensor_test"
    chmod +x "$tree"/build/cuda/*/*
    check() {
      : >"$tree/ran"
      status=0
      output=$(GIT_CEILING_DIRECTORIES=$work bash "$tree/scripts/check/check_cuda.sh" --device cpu --built --out "$tree/out" \
        --only golden --only device "$@") || status=$?
      ran=$(xargs <"$tree/ran")
    }
    touch "$tree/broken"
    check
    [[ $status == 1 && $ran == 'device golden' && $output == *'| device | FAILED |'* ]] || die "a step that fails: $ran $output"
    rm "$tree/broken"
    check
    [[ $status == 0 && $ran == device && $output == *'| golden | ok, before | '*' | 3 tests passed |'* ]] || die "goes on: $ran $output"
    check
    [[ $status == 0 && $ran == '' ]] || die "nothing is left: $ran"
    check --again
    [[ $status == 0 && $ran == 'device golden' ]] || die "--again: $ran"
    echo '# another program' >>"$tree/build/cuda/bin/mneme"
    check --minutes 0.001
    [[ $status == 2 && $ran == '' && $output == *'left for the next call: device golden'* ]] || die "no time: $status $ran $output"
    check
    [[ $status == 0 && $ran == 'device golden' ]] || die "another program: $ran"
    expect_failure "--minutes needs a number above 0, got '0'" bash "$tree/scripts/check/check_cuda.sh" --minutes 0
    expect_failure "--python: there is no program '/nowhere'" bash "$tree/scripts/check/check_cuda.sh" --python /nowhere
    printf '#!/bin/sh\nexit 1\n' >"$work/no_torch"
    chmod +x "$work/no_torch"
    output=$(bash "$tree/scripts/check/check_cuda.sh" --device cpu --built --out "$tree/out" --only rivals --python "$work/no_torch")
    [[ $output == *"| rivals-gpt2 | skipped | "*" | $work/no_torch has no PyTorch"* ]] || die "no PyTorch: $output"
    ;;
  bench_arguments)
    expect_failure "no benchmark is called 'ops'; --list prints their names" bash "$project/scripts/bench.sh" ops
    expect_failure "--rounds needs a number of at least 1, got '0'" bash "$project/scripts/bench.sh" --rounds 0
    expect_failure "--write-docs: there is no page $work/none.md" bash "$project/scripts/bench.sh" --write-docs "$work/none.md"
    expect_failure "$work/none' has no pytorch/mem_transformer.py" bash "$project/scripts/bench.sh" --against-official "$work/none"
    mkdir -p "$work/clone/pytorch" && touch "$work/clone/pytorch/mem_transformer.py"
    expect_failure "--python: there is no program 'nothing'" bash "$project/scripts/bench.sh" --python nothing
    expect_failure "'false' lacks PyTorch, NumPy or safetensors" \
      bash "$project/scripts/bench.sh" --against-official "$work/clone" --python false
    expect_failure "runs no other benchmark; leave out 'ops_bench'" \
      bash "$project/scripts/bench.sh" --against-official "$work/clone" ops_bench
    missing=$(comm -3 <(bash "$project/scripts/bench.sh" --list | sort) \
      <(cd "$project" && { basename -s .cpp -- bench/*/*_bench.cpp; basename -a -- scripts/bench/*_bench.py; } | sort))
    [[ -z $missing ]] || die "bench.sh and bench/ name other benchmarks: $missing"
    for name in official $(bash "$project/scripts/bench.sh" --list); do
      grep -qF "<!-- begin $name " "$project/docs/performance.md" || die "docs/performance.md has no place for $name"
    done
    ;;
  jobs_not_a_number)
    expect_failure "--jobs needs a number of at least 1, got 'two'" bash "$project/scripts/test.sh" --jobs two
    expect_failure "--jobs needs a number of at least 1, got '0'" bash "$project/scripts/check/check_cuda.sh" --jobs 0
    expect_failure "--large needs a number of at least 1, got '0'" bash "$project/scripts/check/check_large_corpus.sh" --large 0
    expect_failure "--steps needs a number of at least 1, got 'x'" bash "$project/scripts/check/check_large_corpus.sh" --steps x
    ;;
  cluster_script)
    # srun says how it was called and ends with $srun_status; scontrol knows when the job ends.
    mkdir -p "$work/bin" "$work/run/checkpoints"
    printf '#!/bin/sh\necho "srun $*"\nexit "$srun_status"\n' >"$work/bin/srun"
    printf '#!/bin/sh\n[ "$1" = show ] || { echo "scontrol $*"; exit 0; }\n%s\n' \
      'echo "   StartTime=2025-01-01T00:00:00 EndTime=$(date -d "$ends" +%FT%T) Deadline=N/A"' >"$work/bin/scontrol"
    chmod +x "$work/bin/srun" "$work/bin/scontrol"
    job() {  # status, when the job ends, argument of the script...
      env PATH="$work/bin:$PATH" SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=8 MNEME=true srun_status="$1" ends="$2" \
        bash "$project/scripts/cluster/train.sbatch" "${@:3}"
    }
    expect_failure 'usage: sbatch .* EXPERIMENT RUN' job 0 now x.toml
    expect_failure 'start it with sbatch' bash "$project/scripts/cluster/train.sbatch" x.toml "$work/new"
    expect_failure "no command 'module'" env MODULES=openmpi SLURM_JOB_ID=7 bash "$project/scripts/cluster/train.sbatch" x.toml "$work/new"
    expect_failure "there is no program '/nowhere'; set MNEME" \
      env MNEME=/nowhere SLURM_JOB_ID=7 bash "$project/scripts/cluster/train.sbatch" x.toml "$work/new"
    expect_failure 'has no checkpoint to continue from' job 0 '+1 hour' x.toml "$work/run"
    output=$(job 0 '+1 hour' x.toml "$work/new" --set a.b=1)
    [[ $output == "srun --mpi=pmix --cpu-bind=cores --kill-on-bad-exit=1 true train x.toml --run $work/new --set a.b=1"* ]] ||
      die "a new run: $output"
    touch "$work/run/experiment.toml" "$work/run/checkpoints/step_00000001.safetensors"
    output=$(job 1 '+100 seconds' x.toml "$work/run" --set a.b=1) && die "a stopped run ended with 0"
    [[ $output == *"train --resume $work/run --device cuda --threads 8"* && $output == *"scontrol requeue 7"* ]] ||
      die "a run that goes on, and its time limit: $output"
    output=$(job 1 '+1 hour' x.toml "$work/run") && die "a failed run ended with 0"
    [[ $output != *requeue* ]] || die "a failure was put into the queue again: $output"
    output=$(job 3 '+100 seconds' x.toml "$work/run") && die "a failed plugin ended with 0"
    [[ $output != *requeue* ]] || die "a failed plugin was put into the queue again: $output"
    ;;
  counts_every_outcome)
    mkdir "$work/source"
    cat >"$work/source/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(outcomes NONE)
enable_testing()
add_test(NAME passes COMMAND bash -c "echo '<testcase status=\"fail\"'")
add_test(NAME passes_too COMMAND true)
add_test(NAME fails COMMAND bash -c "echo '<testcase status=\"run\"'; exit 1")
add_test(NAME times_out COMMAND sleep 20)
set_tests_properties(times_out PROPERTIES TIMEOUT 1)
add_test(NAME missing COMMAND no_such_program)
add_test(NAME skips COMMAND echo skipping)
set_tests_properties(skips PROPERTIES SKIP_REGULAR_EXPRESSION skipping)
add_test(NAME skips_by_code COMMAND bash -c "exit 77")
set_tests_properties(skips_by_code PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME disabled COMMAND true)
set_tests_properties(disabled PROPERTIES DISABLED ON)
add_test(NAME suite COMMAND printf "Running\\n[  PASSED  ] 4 tests.\\n[  SKIPPED ] 1 test, listed below:\\n[  SKIPPED ] A.B\\n")
add_test(NAME suite_fails COMMAND bash -c
  "printf 'Running\\n[  PASSED  ] 1 test.\\n[  FAILED  ] 2 tests, listed below:\\n[  FAILED  ] A.C\\n'; exit 1")
CMAKE
    cmake -S "$work/source" -B "$work/build" -G Ninja >/dev/null
    ctest --test-dir "$work/build" --output-junit "$work/results.xml" >/dev/null 2>&1 && die "ctest passed"
    # shellcheck source=scripts/common.sh
    counts=$(source "$project/scripts/common.sh" && count_results "$work/results.xml")
    [[ $counts == '7 5 4' ]] || die "counted '$counts', expected '7 5 4' (passed, failed, skipped)"
    ;;
  configure_without_libtorch)
    expect_failure 'LibTorch was not found.*Looked in: /nowhere.*Run scripts/setup.sh' configure -DMNEME_TORCH=/nowhere
    ;;
  configure_with_old_libtorch)
    fake_libtorch "$work/torch" 2 3
    expect_failure 'LibTorch 2\.3\.0 in .*torch is too old; expected 2\.11 or newer' configure -DMNEME_TORCH="$work/torch"
    ;;
  configure_with_unknown_cuda)
    expect_failure "MNEME_CUDA is 'maybe'; expected AUTO, ON or OFF" configure -DMNEME_CUDA=maybe
    ;;
  configure_with_unknown_sanitizer)
    expect_failure "MNEME_SANITIZE is 'memory'; expected address, undefined, \"address,undefined\", thread" \
      configure -DMNEME_SANITIZE=memory
    ;;
  configure_with_unknown_install_torch)
    fake_libtorch "$work/torch" 2 11
    expect_failure "MNEME_INSTALL_TORCH is 'move'; expected copy, copy-cuda, link or package" \
      configure -DMNEME_TORCH="$work/torch" -DMNEME_INSTALL_TORCH=move
    ;;
  install_of_libtorch)
    # Libraries that need each other as LibTorch's do; the one that is not there last.
    mkdir -p "$work/torch/lib" "$work/elsewhere"
    library() {  # name, folder, needed library...
      echo "int $1(void) { return 0; }" |
        cc -shared -fPIC -Wl,--no-as-needed,-soname,"lib$1.so" -x c - -x none "${@:3}" -o "$2/lib$1.so"
    }
    library mneme_part "$work/elsewhere"
    library c10 "$work/torch/lib"
    library torch_cpu "$work/torch/lib" "$work/torch/lib/libc10.so" "$work/elsewhere/libmneme_part.so"
    copy_torch() {  # copy | copy-cuda, folder of what it needs besides
      cmake "-DCMAKE_INSTALL_PREFIX=$work/prefix" "-Dmneme_torch_root=$work/torch" "-Dmneme_torch_cuda_folders=$2" \
        -Dmneme_torch_folder=lib/torch -Dmneme_licence_folder=licences "-Dmneme_with_cuda=$1" -P "$project/cmake/InstallTorch.cmake"
    }
    copy_torch copy "$work/elsewhere" >/dev/null
    files=$(find "$work/prefix" -type f -printf '%P ' | tr ' ' '\n' | sort | xargs)
    [[ $files == 'lib/torch/libc10.so lib/torch/libmneme_part.so lib/torch/libtorch_cpu.so' ]] || die "installed: $files"
    expect_failure 'is a build for the CPU only: there is no lib/libtorch_cuda.so.*MNEME_INSTALL_TORCH=copy' \
      copy_torch copy-cuda "$work/elsewhere"
    library torch_cuda "$work/torch/lib"
    library torch_python "$work/torch/lib"
    mkdir -p "$work/nvidia/cudnn/lib" "$work/nvidia/cudnn/include"
    touch "$work/nvidia/cudnn/lib/libcudnn.so.9" "$work/nvidia/cudnn/include/cudnn.h"
    copy_torch copy-cuda "$work/elsewhere" >/dev/null
    [[ -e $work/prefix/lib/torch/libtorch_cuda.so ]] || die "copy-cuda leaves libtorch_cuda.so out"
    [[ ! -e $work/prefix/lib/torch/libtorch_python.so ]] || die "copy-cuda takes libtorch_python.so"
    found=$(find "$work/prefix" -name 'libcudnn.so.9')
    [[ -n $found && -z $(find "$work/prefix" -name cudnn.h) ]] || die "copy-cuda: NVIDIA's libraries, and no more: $found"
    rm "$work/elsewhere/libmneme_part.so"
    expect_failure 'needs libraries that were not found: libmneme_part.so.*MNEME_INSTALL_TORCH=link' copy_torch copy "$work/elsewhere"
    ;;
  configure_without_nvcc)
    mkdir "$work/bin"
    for tool in cmake ninja cc c++ gcc g++ ar ranlib ld as; do
      path=$(command -v $tool) && ln -s "$path" "$work/bin/$tool"
    done
    expect_failure 'MNEME_CUDA=ON, but no working nvcc was found' env PATH="$work/bin" \
      cmake -S "$project" -B "$work/build" -G Ninja -DMNEME_CUDA=ON
    ;;
  configure_without_vega)
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\ninclude("%s/cmake/Vega.cmake")\n%s\n' \
      "$project" 'mneme_add_vega("${CMAKE_BINARY_DIR}/vega.js")' >"$work/CMakeLists.txt"
    output=$(cmake -S "$work" -B "$work/build" -G Ninja)
    grep -qF 'pages will have no figures' <<<"$output" || die "no message: $output"
    [[ -e $work/build/vega.js && ! -s $work/build/vega.js ]] || die "expected an empty vega.js"
    echo 'var vega;' >"$work/own.js"
    cmake -S "$work" -B "$work/build" -G Ninja -DMNEME_VEGA="$work/own.js" >/dev/null
    cmp "$work/own.js" "$work/build/vega.js"
    expect_failure "MNEME_VEGA is '/nowhere', which is no file" cmake -S "$work" -B "$work/build" -G Ninja -DMNEME_VEGA=/nowhere
    ;;
  host_library_without_sources)
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\ninclude("%s/cmake/HostLibrary.cmake")\n%s\n' \
      "$project" 'mneme_host_library(mneme_x DEPS y)' >"$work/CMakeLists.txt"
    expect_failure 'mneme_host_library\(mneme_x SOURCES.*no SOURCES' cmake -S "$work" -B "$work/build" -G Ninja
    ;;
  *) die "unknown case '$case_name'" ;;
esac
