#!/bin/sh
# install_test.sh SOURCE BUILD [EXAMPLE_TEST]: installs the SDK out of BUILD into a folder of its own, builds the examples
# and the template against it with every compiler at hand, and looks at the binaries. With EXAMPLE_TEST (the program of
# example_test.cpp) the host also trains with the examples and their gradients are held to finite differences.
set -eu
source_dir=$1
build_dir=$2
example_test=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# check_binary FILE: one exported symbol, the note, no LibTorch and no host, nothing that keeps it from being two copies.
check_binary() {
  symbols=$(nm -D --defined-only "$1" | awk '{print $NF}')
  [ "$symbols" = mneme_negotiate_v1 ] || fail "$1: expected the one symbol mneme_negotiate_v1, got: $symbols"
  readelf -n "$1" 2>/dev/null | grep -q 'notes found in: .note.mneme' || fail "$1: no section .note.mneme"
  needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  for library in $needed; do
    case $library in
      libc.so.*|libm.so.*|libstdc++.so.*|libgcc_s.so.*|ld-linux*) ;;
      *) fail "$1: needs $library; expected the C and C++ runtimes alone" ;;
    esac
  done
  if readelf -Ws "$1" | grep -q UNIQUE; then fail "$1: has unique symbols"; fi
}

# build_example NAME FOLDER LABEL CMAKE_ARGUMENTS...: configures and builds outside the tree, with warnings as errors.
build_example() {
  name=$1
  folder=$2
  label=$3
  shift 3
  cp -r "$folder" "$work/src-$label-$name"
  if ! cmake -S "$work/src-$label-$name" -B "$work/$label-$name" -G Ninja -DCMAKE_PREFIX_PATH="$work/sdk" \
      -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" \
      "$@" >"$work/log" 2>&1 || ! cmake --build "$work/$label-$name" >>"$work/log" 2>&1; then
    cat "$work/log"
    fail "$name does not build with $label"
    return
  fi
  check_binary "$work/$label-$name/$name.so"
  echo "ok: $name with $label"
}

# run_example NAME LABEL: the host trains with the example that this compiler built.
run_example() {
  [ -n "$example_test" ] || return 0
  if MNEME_EXAMPLE_FOLDER="$work/$2-$1" MNEME_EXAMPLE_PLUGIN=$1 "$example_test" >"$work/log" 2>&1; then
    grep "^$1[:,]" "$work/log"
    echo "ok: $1 by $2 trains"
  else
    cat "$work/log"
    fail "$1 by $2 does not train"
  fi
}

# new_projects C_COMPILER CXX_COMPILER: what `mneme plugins new` writes builds, and its own tests pass. Without the program the
# template is put together by hand.
new_projects() {
  if [ ! -x "$build_dir/bin/mneme" ]; then
    mkdir -p "$work/by_hand"
    cp "$work/sdk/share/mneme-sdk/template/common/"* "$work/sdk/share/mneme-sdk/template/cpp/"* "$work/by_hand"
    build_example my_memory "$work/by_hand" "$1" -DCMAKE_C_COMPILER="$1" -DCMAKE_CXX_COMPILER="$2"
    return
  fi
  for kind in c cpp cuda; do
    if [ "$1" = clang ] && [ $kind = cuda ]; then continue; fi  # nvcc calls g++
    name=new_$kind
    case $kind in
      cuda) set -- "$1" "$2" --cuda ;;
      *) set -- "$1" "$2" --lang "$kind" ;;
    esac
    cc=$1
    cxx=$2
    shift 2
    "$build_dir/bin/mneme" plugins new "$name" "$@" --folder "$work/new-$cc-$name" >"$work/log" || { cat "$work/log"; exit 1; }
    set -- "$cc" "$cxx"
    without='^none$'
    # The checks and the training are the same ones again; those of new_cuda are those of new_cpp and more, and run_example trains
    # with what clang builds.
    if [ "$cc" = clang ] || [ $kind = cpp ]; then without='^(validate|forget_runs|compare)$'; fi
    build_example "$name" "$work/new-$cc-$name" "$cc" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
      -DMNEME="$build_dir/bin/mneme"
    if ctest --test-dir "$work/$cc-$name" -E "$without" --output-on-failure >"$work/log" 2>&1; then
      echo "ok: the tests of $name by $cc ($(grep -c Passed "$work/log") passed)"
    else
      cat "$work/log"
      fail "the tests of $name by $cc fail"
    fi
  done
}

cmake --install "$build_dir" --prefix "$work/sdk" --component sdk >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ -f "$work/sdk/include/mneme/plugin.h" ] || fail "the component sdk has no include/mneme/plugin.h"
if grep -rlF "$source_dir" "$work/sdk"; then fail "the installed SDK names the source folder (files above)"; fi

# A plugin of the tree as a project outside of it: kernels for every instruction set, with the installed helpers
# (CUDA's are new_cuda's part).
if [ -d "$source_dir/plugins/compressive" ]; then
  cp -r "$source_dir/plugins/compressive" "$work/kernels"
  {
    printf 'cmake_minimum_required(VERSION 3.22)\nproject(compressive LANGUAGES C CXX)\nfind_package(mneme-sdk 0.1 REQUIRED)\n'
    cat "$source_dir/plugins/compressive/CMakeLists.txt"
  } >"$work/kernels/CMakeLists.txt"
fi

compilers=0
for pair in gcc:g++ clang:clang++; do
  cc=${pair%%:*}
  cxx=${pair##*:}
  if ! command -v "$cc" >/dev/null || ! command -v "$cxx" >/dev/null; then
    echo "skipped: $cc and $cxx are not installed"
    continue
  fi
  compilers=$((compilers + 1))
  for folder in "$source_dir"/examples/*/; do
    [ -e "$folder/CMakeLists.txt" ] || continue  # memories in Python are not built
    name=$(basename "$folder")
    case $name in
      decayed_mean*) kind=Release ;;  # the host trains with it
      *) kind=Debug ;;                # builds sooner, without symbols
    esac
    if [ "$cc" = clang ] && [ $kind = Debug ]; then continue; fi  # one in C and one in C++ are enough
    build_example "$name" "$folder" "$cc" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DMNEME_CUDA=OFF \
      -DCMAKE_BUILD_TYPE=$kind -DCMAKE_C_FLAGS_DEBUG= -DCMAKE_CXX_FLAGS_DEBUG=
  done
  run_example decayed_mean_c "$cc"
  run_example decayed_mean "$cc"
  if [ -d "$work/kernels" ] && [ "$cc" = gcc ]; then
    build_example compressive "$work/kernels" "$cc" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DMNEME_CUDA=OFF \
      -DCMAKE_CXX_FLAGS_RELEASE=-O1
  fi
  new_projects "$cc" "$cxx"
done
[ "$compilers" -gt 0 ] || fail "neither gcc nor clang is installed"

# A project that asks for another minor version of the SDK is refused: while its major is 0 any minor may change it.
mkdir "$work/other"
printf 'cmake_minimum_required(VERSION 3.22)\nproject(other LANGUAGES C)\nfind_package(mneme-sdk 0.2 REQUIRED)\n' \
  >"$work/other/CMakeLists.txt"
if cmake -S "$work/other" -B "$work/other/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/sdk" >"$work/log" 2>&1; then
  fail "find_package(mneme-sdk 0.2) accepted SDK 0.1"
else
  grep -q 'requested version "0.2"' "$work/log" || fail "find_package(mneme-sdk 0.2) failed for another reason: $(cat "$work/log")"
fi

# mneme_add_plugin says what is wrong with its arguments.
printf 'cmake_minimum_required(VERSION 3.22)\nproject(none LANGUAGES C)\nfind_package(mneme-sdk 0.1 REQUIRED)\nmneme_add_plugin(none)\n' \
  >"$work/other/CMakeLists.txt"
rm -rf "$work/other/build"
if cmake -S "$work/other" -B "$work/other/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/sdk" >"$work/log" 2>&1; then
  fail "mneme_add_plugin(none) without SOURCES was accepted"
else
  grep -q 'no SOURCES' "$work/log" || fail "mneme_add_plugin(none): the message does not say that SOURCES are missing"
fi

if [ "$failures" -gt 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all checks passed with $compilers compilers"
