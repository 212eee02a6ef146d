#!/bin/sh
# header_test.sh ROOT: each header compiles alone. C headers: gcc and clang as C11, g++ and clang++ as C++17, with -Wpadded (padding
# is explicit); all together as C++20 too. The functions of mneme/c: the same with -Wconversion, -Wshadow and
# -Wunused-function. Headers of the C++ layer: g++ and clang++ as C++17. The C headers hold the rules of header_rules.sh, and
# each of those can fail.
set -eu
here=$(dirname "$0")
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
  for compiler in gcc clang; do compile $compiler "-std=c11 -Wpadded -Wpedantic" "$name" c; done
  for compiler in g++ clang++; do compile $compiler "-std=c++17 -Wpadded -Wpedantic" "$name" cpp; done
done
for name in plugin.h sdk.h; do # they include the others
  for compiler in g++ clang++; do compile $compiler "-std=c++20 -Wpadded -Wpedantic" "$name" cpp; done
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

find "$kernels/mneme_kernels" -type f -exec awk 'length > 100 { print FILENAME ":" FNR ": " length " columns, more than 100" }' {} + >"$work/breaches"
sh "$here/header_rules.sh" "$include" >>"$work/breaches" || failures=$((failures + 1))
if grep -v '^header rules hold: ' "$work/breaches"; then failures=$((failures + 1)); fi
if [ "$failures" -gt 0 ]; then exit 1; fi

# The check can fail: padding that nobody wrote down is refused.
if command -v gcc >/dev/null; then
  printf 'struct s { char a; long b; };\n' >"$work/padded.c"
  if gcc -std=c11 -Wpadded -Werror -fsyntax-only "$work/padded.c" >/dev/null 2>&1; then
    echo "FAIL: hidden padding was accepted"
    exit 1
  fi
fi

# Each rule can fail: a header that breaks nothing, and what is added to it.
good='#ifndef MNEME_BAD_H_
#define MNEME_BAD_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define MNEME_BAD_FIRST 1u
enum { MNEME_BAD_ONE = 1, MNEME_BAD_TWO = 2 };
typedef struct mneme_bad {
  uint32_t struct_size;
  uint32_t flags;
  int32_t (*call)(const char* text);
} mneme_bad;
#ifdef __cplusplus
}
#endif'
end='#endif /* MNEME_BAD_H_ */'
rules() {
  mkdir -p "$work/bad/mneme"
  printf '%s\n' "$1" >"$work/bad/mneme/bad.h"
  sh "$here/header_rules.sh" "$work/bad"
}
rules "$good
$end" >/dev/null || { echo "FAIL: a header that breaks nothing was refused"; rules "$good
$end"; exit 1; }
# expect_breaches HEADER WORDS...: it is refused with each of these words.
expect_breaches() {
  if rules "$1" >"$work/out" 2>&1; then echo "FAIL: accepted a header that should be refused"; exit 1; fi
  shift
  for words in "$@"; do
    grep -qF -- "$words" "$work/out" || { echo "FAIL: expected '$words', got:"; cat "$work/out"; exit 1; }
  done
}
expect_breaches "$good
$(printf '/* %0100d */' 0)
static inline int32_t mneme_f(void) { return 0; }
#include <string.h>
typedef struct mneme_b {
  int64_t x;
} mneme_b;
typedef struct mneme_c {
  uint32_t struct_size;
  uint32_t x;
} mneme_c;
typedef struct mneme_d {
  uint32_t struct_size;
  uint32_t flags : 3;
} mneme_d;
enum mneme_e { MNEME_BAD_FOUR = 4, MNEME_BAD_FIVE = 4, MNEME_BAD_SIX };
typedef _Bool mneme_g;
typedef unsigned int mneme_h;
typedef size_t mneme_i;
typedef long long mneme_j;
typedef float mneme_k;
typedef union { int32_t a; } mneme_l;
#define MNEME_BAD_SECOND 1u
#define MNEME_BAD_THIRD ((uint64_t)1 << 0)
#define MNEME_BAD_FOURTH 3u
$end" 'bad.h:17: 106 columns' 'code in the specification: 18:' 'more than stddef.h and stdint.h: 19:' \
  'mneme_b does not start with uint32_t struct_size' 'the second field of mneme_c is not uint32_t flags' \
  'or a bit-field: uint32_t flags : 3;' 'or a bit-field: enum mneme_e' 'or a bit-field: typedef _Bool mneme_g' \
  'or a bit-field: typedef unsigned int mneme_h' 'or a bit-field: typedef size_t mneme_i' \
  'or a bit-field: typedef long long mneme_j' 'or a bit-field: typedef float mneme_k' 'or a bit-field: typedef union' \
  'MNEME_BAD_FIVE has the value of MNEME_BAD_FOUR' 'a constant without a value of its own: MNEME_BAD_SIX' \
  'MNEME_BAD_SECOND has the bit of MNEME_BAD_FIRST' 'MNEME_BAD_THIRD has the bit of MNEME_BAD_SECOND' \
  'the flag MNEME_BAD_FOURTH is not one bit'
expect_breaches "$good
#endif" 'no include guard MNEME_BAD_H_ around all of it'
expect_breaches "$(echo "$good" | grep -v 'extern "C"')
$end" 'declares functions without extern "C"'
rm "$work/bad/mneme/bad.h"
if sh "$here/header_rules.sh" "$work/bad" >"$work/out" || ! grep -q 'holds no headers' "$work/out"; then
  echo "FAIL: a folder without headers was accepted"
  exit 1
fi
echo "$checked compilations of single headers passed"
