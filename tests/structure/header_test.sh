#!/bin/sh
# header_test.sh ROOT: each header compiles alone. C headers: gcc and clang as C11 with -Wpadded (padding is explicit),
# g++ and clang++ as C++17. The functions of mneme/c: the same with -Wconversion, -Wshadow and -Wunused-function. Headers of
# the C++ layer: g++ and clang++ as C++17. No header has a line of more than 100 columns, and the C headers but for sdk.h,
# which are the ABI's specification, hold declarations alone and include nothing but each other, stddef.h and stdint.h.
set -eu
include=$1/sdk/include
kernels=$1/sdk/kernels/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
checked=0

# compile COMPILER FLAGS HEADER SUFFIX
compile() {
  command -v "$1" >/dev/null || return 0
  case $3 in
    mneme_kernels/*) printf '#include "%s"\n' "$3" >"$work/alone.$4" ;;
    *) printf '#include "mneme/%s"\n' "$3" >"$work/alone.$4" ;;
  esac
  checked=$((checked + 1))
  # shellcheck disable=SC2086
  if ! "$1" $2 -Wall -Wextra -Werror -I"$include" -I"$kernels" -fsyntax-only "$work/alone.$4" >"$work/log" 2>&1; then
    echo "FAIL: $3 does not compile alone with $1 $2"
    head -20 "$work/log"
    failures=$((failures + 1))
  fi
}

for header in "$include"/mneme/*.h; do
  name=$(basename "$header")
  compile gcc "-std=c11 -Wpadded -pedantic" "$name" c
  compile clang "-std=c11 -Wpadded" "$name" c
  compile g++ "-std=c++17 -Wpadded" "$name" cpp
  compile clang++ "-std=c++17" "$name" cpp
done
for header in plugin.hpp cpp/failure.hpp cpp/host.hpp cpp/options.hpp cpp/tensor.hpp cpp/op_call.hpp cpp/ops.hpp \
    cpp/ops_math.hpp cpp/ops_reduce.hpp cpp/ops_shape.hpp cpp/ops_network.hpp cpp/rows.hpp cpp/state.hpp cpp/setup.hpp \
    cpp/segment.hpp cpp/layer.hpp cpp/kernel.hpp cpp/half.hpp cpp/tier.hpp cpp/entry.hpp cpp/element.hpp \
    cpp/kernel_checks.hpp cpp/parallel.hpp cpp/log.hpp mneme_kernels/infer.hpp mneme_kernels/cpu/arena.hpp \
    mneme_kernels/cpu/instruction_sets.hpp mneme_kernels/cpu/strands.hpp; do
  compile g++ "-std=c++17 -Wconversion -Wshadow" "$header" cpp
done
# What is compiled for one instruction set after another; GCC says nothing of functions that are inline and not used.
for bits in 128 256 512; do
  compile g++ "-std=c++17 -DMNEME_VECTOR_BITS=$bits -Wconversion -Wshadow" mneme_kernels/cpu/begin.inl cpp
done
for header in simd.inl elements.inl product.inl rows.inl softmax.inl; do
  compile g++ "-std=c++17 -mavx2 -mfma -DMNEME_VECTOR_BYTES=32 -Wconversion -Wshadow" "mneme_kernels/cpu/$header" cpp
  compile g++ "-std=c++17 -DMNEME_VECTOR_BYTES=16 -Wconversion -Wshadow" "mneme_kernels/cpu/$header" cpp
done
compile clang++ "-std=c++17 -Wconversion -Wshadow" plugin.hpp cpp
for compiler in gcc clang; do
  compile "$compiler" "-std=c11 -pedantic -Wconversion -Wshadow -Wunused-function" c/ops.h c
done
for compiler in g++ clang++; do
  compile "$compiler" "-std=c++17 -pedantic -Wconversion -Wshadow -Wunused-function" c/ops.h cpp
done
[ "$checked" -gt 0 ] || { echo "FAIL: no compiler found"; exit 1; }

# plugin.hpp is the whole C++ layer: it includes every header of cpp/, and its comment lists those that are not the layer's
# own inside.
inside=' entry host op_call ops_macros ops_math ops_network ops_reduce ops_shape ops_undefine '
if command -v g++ >/dev/null; then
  printf '#include "mneme/plugin.hpp"\n' >"$work/all.cpp"
  g++ -std=c++17 -I"$include" -MM "$work/all.cpp" >"$work/reached"
  for header in "$include"/mneme/cpp/*.hpp; do
    name=$(basename "$header" .hpp)
    grep -q "mneme/cpp/$name\.hpp" "$work/reached" || { echo "FAIL: plugin.hpp does not include cpp/$name.hpp"; failures=$((failures + 1)); }
    case $inside in *" $name "*) continue ;; esac
    grep -q "^//.*cpp/$name\.hpp" "$include/mneme/plugin.hpp" || { echo "FAIL: plugin.hpp does not list cpp/$name.hpp"; failures=$((failures + 1)); }
  done
fi

# breaches FOLDER: what the headers below FOLDER/mneme may not hold, with file and line.
long_lines() {
  find "$1" -type f -exec awk 'length > 100 { print FILENAME ":" FNR ": " length " columns, more than 100" }' {} +
}
breaches() {
  long_lines "$1/mneme"
  for header in "$1"/mneme/*.h; do
    [ "$(basename "$header")" != sdk.h ] || continue
    grep -nE 'static inline|__attribute__' "$header" | sed "s|^|$header: code in the specification: |" || true
    grep -nE '^[[:space:]]*#[[:space:]]*include' "$header" | grep -vE '<std(def|int)\.h>|"mneme/[a-z]+\.h"' |
      sed "s|^|$header: includes more than stddef.h and stdint.h: |" || true
  done
}
{ breaches "$include"; long_lines "$kernels/mneme_kernels"; } >"$work/breaches"
if [ -s "$work/breaches" ]; then
  cat "$work/breaches"
  failures=$((failures + 1))
fi
if [ "$failures" -gt 0 ]; then exit 1; fi

# The check can fail: padding that nobody wrote down is refused.
if command -v gcc >/dev/null; then
  printf 'struct s { char a; long b; };\n' >"$work/padded.c"
  if gcc -std=c11 -Wpadded -Werror -fsyntax-only "$work/padded.c" >/dev/null 2>&1; then
    echo "FAIL: hidden padding was accepted"
    exit 1
  fi
fi
mkdir -p "$work/bad/mneme"
printf '#include <string.h>\nstatic inline int f(void) { return 0; }\n/* %0100d */\n' 0 >"$work/bad/mneme/bad.h"
for words in 'bad.h:3: 106 columns' 'code in the specification: 2:' 'more than stddef.h and stdint.h: 1:'; do
  breaches "$work/bad" | grep -qF "$words" || { echo "FAIL: no breach '$words'"; exit 1; }
done
echo "$checked compilations of single headers passed"
