#!/usr/bin/env bash
# Builds the Python wheel: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/wheel.sh [--out DIR] [--python PYTHON] [--mpi] [--prefix DIR]

Builds the wheel mneme-VERSION-py3-none-manylinux_2_36_x86_64.whl: the program, its memories, the bridge for memories in
Python, the SDK, experiments and the manual, for every Python from 3.11 on. LibTorch is the wheel torch, which pip installs
beside it. Build it on Debian 12, whose C library is the 2.36 of the name.

  --out DIR     where the wheel goes (default: dist)
  --python PY   the Python that builds; pip downloads scikit-build-core into an environment of its own (default: python3)
  --mpi         with training in several processes: the program then needs Open MPI wherever it runs. Without it the program
                needs no package, and runs in one process
  --prefix DIR  build nothing: pack the installation in DIR, which `cmake --install` made (all components, built with
                MNEME_INSTALL_TORCH=package)
TEXT
}

python=python3
prefix=
mpi=OFF
out=$(realpath -m dist)
readonly platform=manylinux_2_36_x86_64
while (($#)); do
  case $1 in
    --out | --python | --prefix)
      (($# >= 2)) || fail "$1 needs a value"
      case $1 in
        --out) out=$(realpath -m "$2") ;;
        --python) python=$2 ;;
        --prefix) prefix=$(realpath -m "$2") ;;
      esac
      shift
      ;;
    --mpi) mpi=ON ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=("wheel.tags=py3-none-$platform")
if [[ -n $prefix ]]; then
  [[ -x $prefix/bin/mneme ]] || fail "--prefix $prefix: expected an installation, with bin/mneme in it"
  cp -a "$prefix" "$work/program"
  settings+=(wheel.cmake=false wheel.platlib=true "wheel.packages=mneme=python/mneme;mneme/program=$work/program")
else
  settings+=("cmake.define.MNEME_MPI=$mpi")
fi
mkdir -p "$out"
"$python" -m pip wheel . --no-deps --wheel-dir "$work" "${settings[@]/#/--config-settings=}" ||
  fail "pip could not build the wheel (its message is above)"
wheel=$(echo "$work"/mneme-*.whl)

# check_symbols WHEEL: refuses a program that needs a newer C or C++ library than the name says.
check_symbols() {
  "$python" -m zipfile -e "$1" "$work/unpacked"
  local newest
  newest=$(find "$work/unpacked" -type f \( -path '*/bin/mneme*' -o -name '*.so*' \) -exec objdump -T {} + | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -uV | tail -1)
  [[ $(printf '%s\n' "$newest" GLIBC_2.36 | sort -V | tail -1) == GLIBC_2.36 ]] ||
    fail "the program needs $newest, and $platform has GLIBC_2.36: build the wheel on Debian 12"
}
check_symbols "$wheel"
# More about the system's libraries: each is in the wheel or of the platform. LibTorch is the package torch, MPI the machine's, and
# libspdlog finds libfmt in the wheel by the program's run path.
check_libraries() {
  local missing
  "$python" -m auditwheel repair --plat "$platform" --exclude 'libtorch*.so' --exclude 'libc10*.so' --exclude 'libmpi.so.*' \
    --exclude 'libfmt.so.*' --wheel-dir "$work/repaired" "$1" >"$work/auditwheel.txt" 2>&1 || {
    cat "$work/auditwheel.txt" >&2
    fail "the wheel is not of $platform (auditwheel says why above)"
  }
  missing=$("$python" -m zipfile -l "$work"/repaired/*.whl | grep -oE '^mneme\.libs/[^ ]+' | tr '\n' ' ' || true)
  [[ -z $missing ]] || fail "the program needs libraries that are not in the wheel: $missing"
  say "auditwheel: the wheel is of $platform, with LibTorch as the package torch"
}
if command -v patchelf >/dev/null && "$python" -m auditwheel --version >/dev/null 2>&1; then
  check_libraries "$wheel"
else
  say "skipped: auditwheel, which is not installed or lacks patchelf, says whether the wheel has all libraries"
fi
mv "$wheel" "$out/"
say "wheel: $out/$(basename "$wheel")"
