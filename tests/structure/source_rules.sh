#!/bin/sh
# source_rules.sh ROOT: what the sources below ROOT may say. Prints every breach with file and line; exit code 1 if there
# is one. Needs no git and no build.
#   1. host/ names no plugin: no name of a folder of plugins/, as a word
#   2. plugins/ and examples/ include nothing but the SDK (mneme/..., mneme_kernels/...), files of their own, the C and C++
#      standard library, and Eigen, which is headers alone; .cu and .cuh, CUDA's headers as well
#   3. a file of scripts/ that begins with #! may be executed, as the README calls it
#   4. the program, its SDK and CHANGELOG.md name one version
#   5. host/ says std::int64_t, std::size_t and so on; plugins and the SDK, which include C headers, say int64_t
#   6. host/base/log.cpp alone includes spdlog or fmt, and nothing of their details: LibTorch brings another fmt
set -eu
root=$1
breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT

breach() {
  echo "$*" >>"$breaches"
}

# ---- 1 ----
plugin_names() {
  for folder in "$root"/plugins/*/; do
    if [ -d "$folder" ]; then basename "$folder"; fi
  done
}
for name in $(plugin_names); do
  grep -rnwF --include='*.cpp' --include='*.hpp' --include='*.h' --include='CMakeLists.txt' -e "$name" "$root/host" |
    while IFS= read -r line; do breach "host/ names the plugin $name: $line"; done || true
done

# ---- 2 ----
standard='algorithm any array atomic bit bitset cassert cerrno cfloat charconv chrono cinttypes climits cmath complex
  cstdarg cstddef cstdint cstdio cstdlib cstring ctime deque exception fstream functional initializer_list iomanip iosfwd
  iostream istream iterator limits list locale map memory mutex new numeric optional ostream queue random ratio regex set
  sstream stack stdexcept string string_view system_error thread tuple type_traits typeinfo unordered_map unordered_set
  utility valarray variant vector
  assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h
  stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h time.h'

is_standard() {
  for known in $standard; do
    if [ "$known" = "$1" ]; then return 0; fi
  done
  return 1
}

is_cuda() {
  case $1 in
    cuda_runtime.h|cuda_runtime_api.h|cuda_bf16.h|cuda_fp16.h|cooperative_groups.h|cooperative_groups/*|cub/*|cuda/*|nvtx3/*|mma.h) return 0 ;;
  esac
  return 1
}

# What the compiler brings for a processor's own instructions.
is_intrinsics() {
  case $1 in
    immintrin.h|arm_neon.h) return 0 ;;
  esac
  return 1
}

# may_include FILE HEADER PROJECT_FOLDER
may_include() {
  case $2 in
    *..*) return 1 ;;
    mneme/*) [ -f "$root/sdk/include/$2" ]; return ;;
    mneme_kernels/*) [ -f "$root/sdk/kernels/include/$2" ]; return ;;
    Eigen/*) return 0 ;;
  esac
  if [ -f "$(dirname "$1")/$2" ] || [ -f "$3/$2" ]; then return 0; fi
  if is_standard "$2" || is_intrinsics "$2"; then return 0; fi
  case $1 in
    *.cu|*.cuh) if is_cuda "$2"; then return 0; fi ;;
  esac
  return 1
}

for folder in "$root"/plugins/*/ "$root"/examples/*/ "$root"/sdk/template/; do
  if [ ! -d "$folder" ]; then continue; fi
  find "$folder" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inl' \) |
    while IFS= read -r file; do
      grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" |
        sed -E 's/^([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]?([^>"]*)[>"]?.*/\1 \2/' |
        while read -r line header; do
          may_include "$file" "$header" "$folder" ||
            breach "$file:$line: includes $header; expected the SDK (mneme/...), the plugin's own files or the standard library"
        done || true
    done
done

# ---- 3 ----
for script in "$root"/scripts/* "$root"/scripts/*/*; do
  if [ -f "$script" ] && [ ! -x "$script" ] && [ "$(head -c 2 "$script")" = '#!' ]; then
    breach "$script cannot be executed: chmod +x"
  fi
done

# ---- 4 ----
# The first version named in `file`, by the line that it stands in.
version_in() {
  sed -nE "s/$2/\\1/p" "$root/$1" | head -1
}
version=$(version_in CMakeLists.txt '^project\(mneme VERSION ([0-9.]+) .*')
for entry in 'sdk/CMakeLists.txt:^project\(mneme-sdk VERSION ([0-9.]+) .*' \
  'sdk/include/mneme/abi.h:^#define MNEME_SDK_VERSION "(.*)"$' 'CHANGELOG.md:^## ([0-9.]+)$'; do
  other=$(version_in "${entry%%:*}" "${entry#*:}")
  if [ "$other" != "$version" ]; then
    breach "${entry%%:*}: the version is '$other'; expected '$version', as in CMakeLists.txt"
  fi
done

# ---- 5 ----
if [ -d "$root/host" ]; then
  grep -rnE --include='*.cpp' --include='*.hpp' --include='*.inl' --include='*.cu' --include='*.cuh' \
    '(^|[^:_"[:alnum:]])(u?int(8|16|32|64)_t|size_t)([^_[:alnum:]]|$)' "$root/host" |
    while IFS= read -r line; do breach "host/ says std:: before types of <cstdint> and <cstddef>: $line"; done || true
fi

# ---- 6 ----
for folder in host plugins sdk tests bench examples; do
  if [ ! -d "$root/$folder" ]; then continue; fi
  grep -rnE --include='*.cpp' --include='*.hpp' --include='*.h' '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](spdlog|fmt)/' \
    "$root/$folder" | grep -vE '^[^:]*/host/base/log\.cpp:[0-9]+:.*/(sinks/[a-z_]+|spdlog)\.h>' |
    while IFS= read -r line; do breach "spdlog and fmt are included by host/base/log.cpp alone, without their details: $line"; done || true
done

if [ -s "$breaches" ]; then
  cat "$breaches"
  exit 1
fi
echo "source rules hold: $(plugin_names | wc -l) plugins"
