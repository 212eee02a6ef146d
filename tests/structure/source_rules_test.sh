#!/bin/sh
# source_rules_test.sh ROOT: the rules hold for ROOT, and each of them can fail: a small tree that breaks one rule at a
# time is refused with the right words.
set -eu
root=$1
here=$(dirname "$0")
sh "$here/source_rules.sh" "$root"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A tree that breaks nothing.
fresh_tree() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/host" "$work/tree/plugins/echo_memory" "$work/tree/examples/one" "$work/tree/sdk/include/mneme"
  printf '// xl\n#include <vector>\n' >"$work/tree/host/a.cpp"
  printf '#include <vector>\n#include "mneme/abi.h"\n#include "own.hpp"\n' >"$work/tree/plugins/echo_memory/plugin.cpp"
  : >"$work/tree/plugins/echo_memory/own.hpp"
  printf '#include <cuda_runtime_api.h>\n' >"$work/tree/plugins/echo_memory/k.cuh"
  printf '#include <stdlib.h>\n' >"$work/tree/examples/one/one.c"
  printf '#define MNEME_SDK_VERSION "1.2.3"\n' >"$work/tree/sdk/include/mneme/abi.h"
  printf 'project(mneme VERSION 1.2.3 LANGUAGES C)\n' >"$work/tree/CMakeLists.txt"
  printf 'project(mneme-sdk VERSION 1.2.3 LANGUAGES C)\n' >"$work/tree/sdk/CMakeLists.txt"
  printf '# Changes\n\n## 1.2.3\n\n## 1.2.2\n' >"$work/tree/CHANGELOG.md"
}

# expect_breach WORDS: the tree as it is now is refused with these words.
expect_breach() {
  if sh "$here/source_rules.sh" "$work/tree" >"$work/out" 2>&1; then
    echo "FAIL: accepted a tree that should be refused: $1"
    exit 1
  fi
  grep -qF "$1" "$work/out" || { echo "FAIL: expected '$1', got:"; cat "$work/out"; exit 1; }
}

fresh_tree
sh "$here/source_rules.sh" "$work/tree" >/dev/null || { echo "FAIL: refused a tree that breaks nothing"; exit 1; }
fresh_tree; echo '// like echo_memory' >>"$work/tree/host/a.cpp"
expect_breach 'host/ names the plugin echo_memory'
fresh_tree; echo '#include <torch/torch.h>' >>"$work/tree/plugins/echo_memory/plugin.cpp"
expect_breach 'plugin.cpp:4: includes torch/torch.h'
fresh_tree; echo '#include "host/base/error.hpp"' >>"$work/tree/examples/one/one.c"
expect_breach 'one.c:2: includes host/base/error.hpp'
fresh_tree; echo '#include "../../host/a.cpp"' >>"$work/tree/plugins/echo_memory/plugin.cpp"
expect_breach 'includes ../../host/a.cpp'
fresh_tree; echo '#include <cuda_runtime_api.h>' >>"$work/tree/plugins/echo_memory/plugin.cpp"
expect_breach 'includes cuda_runtime_api.h'
fresh_tree; echo '#include <torch/torch.h>' >"$work/tree/plugins/echo_memory/k.inl"
expect_breach 'k.inl:1: includes torch/torch.h'
fresh_tree; echo '#include <immintrin.h>' >"$work/tree/plugins/echo_memory/k.inl"
sh "$here/source_rules.sh" "$work/tree" >/dev/null || { echo "FAIL: refused the compiler's intrinsics"; exit 1; }
fresh_tree; echo '#include "mneme/unknown.h"' >>"$work/tree/plugins/echo_memory/plugin.cpp"
expect_breach 'includes mneme/unknown.h'
fresh_tree; echo '#include "mneme_kernels/unknown.hpp"' >>"$work/tree/plugins/echo_memory/plugin.cpp"
expect_breach 'includes mneme_kernels/unknown.hpp'
fresh_tree; mkdir -p "$work/tree/scripts/part"; printf '#!/bin/sh\n' >"$work/tree/scripts/part/run.sh"
expect_breach 'run.sh cannot be executed: chmod +x'
printf 'a module\n' >"$work/tree/scripts/part/run.sh"
sh "$here/source_rules.sh" "$work/tree" >/dev/null || { echo "FAIL: refused a file of scripts/ that is no program"; exit 1; }
fresh_tree; printf '#define MNEME_SDK_VERSION "1.2.2"\n' >"$work/tree/sdk/include/mneme/abi.h"
expect_breach "abi.h: the version is '1.2.2'; expected '1.2.3'"
fresh_tree; printf '# Changes\n\n## Since 1.2.3\n\n## 1.2.2\n' >"$work/tree/CHANGELOG.md"
expect_breach "CHANGELOG.md: the version is '1.2.2'"
fresh_tree; : >"$work/tree/sdk/CMakeLists.txt"
expect_breach "sdk/CMakeLists.txt: the version is ''"
fresh_tree; echo 'std::int64_t a(int64_t b);' >>"$work/tree/host/a.cpp"
expect_breach 'a.cpp:3:std::int64_t a(int64_t b);'
fresh_tree; echo 'std::size_t a(const std::vector<std::uint8_t>& my_size_t);' >>"$work/tree/host/a.cpp"
sh "$here/source_rules.sh" "$work/tree" >/dev/null || { echo "FAIL: refused types of std"; exit 1; }
fresh_tree; echo '#include <spdlog/spdlog.h>' >>"$work/tree/host/a.cpp"
expect_breach 'without their details: '"$work"'/tree/host/a.cpp:3'
fresh_tree; mkdir "$work/tree/host/base"; echo '#include <spdlog/spdlog.h>' >"$work/tree/host/base/log.cpp"
sh "$here/source_rules.sh" "$work/tree" >/dev/null || { echo "FAIL: refused the file that logs"; exit 1; }
echo '#include <spdlog/details/os.h>' >>"$work/tree/host/base/log.cpp"
expect_breach 'log.cpp:2'
fresh_tree; mkdir "$work/tree/tests"; echo '#include <fmt/core.h>' >"$work/tree/tests/a.cpp"
expect_breach 'tests/a.cpp:1'
echo "every source rule can fail"
