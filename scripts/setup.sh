#!/usr/bin/env bash
# Installs what mneme needs to be built and tested. Safe to run again: it installs only what is missing.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--torch DIR] [--cuda] [--python] [--no-apt]

Installs the Debian packages that are missing (as root, or with sudo) and, in the virtual environment .venv of the
project, LibTorch 2.11.0, as the PyPI wheel torch, vl-convert-python, from which the build takes the script that draws
the figures of reports, and apache-tvm-ffi, for one test. Asks for nothing.

  --torch DIR  use the LibTorch in DIR (the folder with include/ and lib/); nothing is put into .venv, and reports have no
               figures. A LibTorch named by the environment variables Torch_DIR or CMAKE_PREFIX_PATH is used in the same
               way
  --cuda       install the wheel's CUDA libraries too (4.5 GB), which training on a GPU needs; done without asking when
               nvidia-smi lists a GPU
  --python     install all that "import torch" needs into .venv (4.5 GB), in which memories in Python run
  --no-apt     install no Debian packages
TEXT
}

readonly torch_version=2.11.0
# Vega, Vega-Lite and Vega-Embed; the program itself runs without Python.
readonly vega_package=vl-convert-python==1.9.0.post1
# For the test of mneme_kernels/tvm_ffi.hpp.
readonly tvm_ffi_package=apache-tvm-ffi==0.1.15.post2
# libtorch_cpu.so is linked against these two; the versions are those of the wheel's CUDA 13.0.2.
readonly cuda_packages=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)

# One entry a package; the first name that the distribution knows is taken.
readonly debian_packages=(
  g++ cmake ninja-build ccache mold clang lld "libclang-rt-dev libclang-rt-18-dev libclang-rt-14-dev"
  binutils git ca-certificates python3 python3-venv
  libboost-dev libtomlplusplus-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libeigen3-dev
  libpcre2-dev libutf8proc-dev libjemalloc-dev
  libopenmpi-dev openmpi-bin
  libgtest-dev libgmock-dev libbenchmark-dev
)

torch_folder=
want_cuda=no
want_python=no
want_apt=yes
while (($#)); do
  case $1 in
    --torch)
      (($# >= 2)) || fail "--torch needs a folder: the one that holds LibTorch's include/ and lib/"
      torch_folder=$2
      shift
      ;;
    --cuda) want_cuda=yes ;;
    --python) want_python=yes ;;
    --no-apt) want_apt=no ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Prints the packages of debian_packages that are missing, first alternatives only when none is installed.
missing_packages() {
  local alternatives name
  for alternatives in "${debian_packages[@]}"; do
    for name in $alternatives; do
      is_installed "$name" && continue 2
    done
    echo "$alternatives"
  done
}

install_packages() {
  local missing run=() names=() alternatives name
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "Debian packages: all installed"
    return
  fi
  command -v apt-get >/dev/null ||
    fail "this system has no apt-get; install the equivalents of: ${missing[*]} and run again with --no-apt"
  if (($(id -u) != 0)); then
    if ! sudo -n true 2>/dev/null; then
      fail "packages are missing and sudo without a password is not possible; as root: apt-get install ${missing[*]%% *}"
    fi
    run=(sudo -n)
  fi
  run+=(env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
  say "Debian packages: updating the package lists"
  "${run[@]}" update || fail "apt-get update failed (its message is above); check the network and /etc/apt"
  for alternatives in "${missing[@]}"; do
    for name in $alternatives; do
      if [[ -n $(apt-cache show --no-all-versions "$name" 2>/dev/null) ]]; then
        names+=("$name")
        continue 2
      fi
    done
    fail "the distribution has no package ${alternatives// / or }; mneme needs Debian 12 or Ubuntu 24.04"
  done
  say "Debian packages: installing ${names[*]}"
  "${run[@]}" install --no-install-recommends "${names[@]}" || fail "apt-get install failed (its message is above)"
}

# A LibTorch named by the caller, or nothing.
named_libtorch() {
  local prefixes
  if [[ -n $torch_folder ]]; then
    find_libtorch "$torch_folder" || fail "--torch $torch_folder: expected lib/libtorch_cpu.so and include/torch in it"
  elif [[ -n ${Torch_DIR:-} ]]; then
    find_libtorch "$Torch_DIR" || fail "Torch_DIR=$Torch_DIR: expected lib/libtorch_cpu.so and include/torch in it"
  elif [[ -n ${CMAKE_PREFIX_PATH:-} ]]; then
    IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH//;/:}"
    find_libtorch "${prefixes[@]}" || true
  fi
}

# Succeeds when .venv holds the wanted version of every package given as name==version.
venv_has() {
  .venv/bin/python - "$@" <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, version

def holds(requirement):
    name, wanted = requirement.split("==")
    try:
        return version(name).split("+")[0] == wanted
    except PackageNotFoundError:
        return False

sys.exit(0 if all(holds(requirement) for requirement in sys.argv[1:]) else 1)
PYTHON
}

install_torch() {
  local pip=(.venv/bin/python -m pip install --disable-pip-version-check --no-input --progress-bar off)
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "LibTorch: making the virtual environment .venv"
    python3 -m venv --clear .venv || fail "python3 -m venv failed; on Debian it needs the package python3-venv"
  fi
  if venv_has "torch==$torch_version" "${cuda_packages[@]}" && find_libtorch .venv/lib/python3.*/site-packages/torch >/dev/null; then
    say "LibTorch: $torch_version is in .venv"
  else
    say "LibTorch: installing torch $torch_version without its dependencies, and the two CUDA libraries it is linked to"
    "${pip[@]}" --no-deps "torch==$torch_version" "${cuda_packages[@]}" ||
      fail "pip could not install torch $torch_version (its message is above); name a LibTorch of your own with --torch DIR"
  fi
  if [[ $want_cuda == no ]] && has_gpu; then
    say "LibTorch: nvidia-smi lists a GPU"
    want_cuda=yes
  fi
  if [[ $want_cuda == yes ]]; then
    say "LibTorch: installing the wheel's CUDA libraries"
    "${pip[@]}" "torch==$torch_version" || fail "pip could not install torch's CUDA libraries (its message is above)"
  fi
}

# Memories in Python run in .venv/bin/python3, for which its torch has to be importable.
prepare_python() {
  local words
  if .venv/bin/python -c 'import torch' 2>/dev/null; then
    say "Python: .venv/bin/python3 imports torch"
  else
    say "Python: installing the packages that torch $torch_version imports"
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --progress-bar off "torch==$torch_version" ||
      fail "pip could not install what torch imports (its message is above)"
    words=$(.venv/bin/python -c 'import torch' 2>&1) || fail "import torch fails in .venv/bin/python3: ${words##*$'\n'}"
  fi
  say "Python: export MNEME_PYTHON=$PWD/.venv/bin/python3, then mneme doctor python"
}

# install_wish NAME PACKAGE CONSEQUENCE: a package without which the build goes on.
install_wish() {
  if venv_has "$2"; then
    say "$1: ${2/==/ } is in .venv"
    return
  fi
  say "$1: installing ${2/==/ }"
  .venv/bin/python -m pip install --disable-pip-version-check --no-input --progress-bar off --no-deps "$2" ||
    say "$1: pip could not install it (its message is above); $3"
}

[[ $want_apt == yes ]] && install_packages
libtorch=$(named_libtorch)
if [[ -n $libtorch ]]; then
  [[ $want_python == no ]] ||
    fail "--python installs torch into .venv, and the build would use $libtorch: leave out the one or the other"
  say "LibTorch: using $libtorch"
else
  install_torch
  [[ $want_python == no ]] || prepare_python
  install_wish Vega-Lite "$vega_package" "reports will have tables and no figures"
  install_wish tvm-ffi "$tvm_ffi_package" "the test of mneme_kernels/tvm_ffi.hpp is left out"
fi
if command -v nvcc >/dev/null; then
  say "CUDA: $(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/nvcc \1/p') found; it can compile the plugins' CUDA sources"
else
  say "CUDA: no nvcc on PATH; builds leave out the CUDA sources"
fi
