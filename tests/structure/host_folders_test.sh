#!/bin/sh
# host_folders_test.sh ROOT: host_folders.sh finds no breach in ROOT, CONTRIBUTING.md shows the table, and each rule
# can fail.
set -eu
root=$1
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/host_folders.sh" "$root" "$here/host_folders.txt"
grep -v '^#' "$here/host_folders.txt" | while IFS= read -r line; do
  grep -qxF -- "$line" "$root/CONTRIBUTING.md" || { echo "FAIL: CONTRIBUTING.md does not show the line '$line'"; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A tree of two folders that breaks nothing.
fresh_tree() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/host/low" "$work/tree/host/high/part"
  printf '#include <vector>\n' >"$work/tree/host/low/a.hpp"
  printf '#include "host/low/a.hpp"\n' >"$work/tree/host/high/part/b.cpp"
  printf '# two folders\nlow:\nhigh:  low\n' >"$work/table.txt"
}

# expect_breach WORDS: the tree as it is now is refused with these words.
expect_breach() {
  if sh "$here/host_folders.sh" "$work/tree" "$work/table.txt" >"$work/out" 2>&1; then
    echo "FAIL: accepted a tree that should be refused: $1"
    exit 1
  fi
  grep -qF "$1" "$work/out" || { echo "FAIL: expected '$1', got:"; cat "$work/out"; exit 1; }
}

fresh_tree
sh "$here/host_folders.sh" "$work/tree" "$work/table.txt" >/dev/null || { echo "FAIL: refused a tree that breaks nothing"; exit 1; }
fresh_tree; echo '#include "host/high/part/b.cpp"' >>"$work/tree/host/low/a.hpp"
expect_breach 'host/low/a.hpp:2: low includes host/high/part/b.cpp; its line does not name high'
fresh_tree; echo 'high: low' >>"$work/table.txt"
expect_breach 'high is listed twice'
fresh_tree; printf 'high: low\nlow:\n' >"$work/table.txt"
expect_breach 'high uses low, which does not stand above it'
fresh_tree; : >"$work/tree/host/high/part/b.cpp"; echo 'int x;' >"$work/tree/host/high/part/b.cpp"
expect_breach 'high does not use low'
fresh_tree; mkdir "$work/tree/host/other"; echo 'int x;' >"$work/tree/host/other/c.cpp"
expect_breach 'host/other is not listed'
fresh_tree; : >"$work/table.txt"
expect_breach 'lists no folder'
fresh_tree; for i in $(seq 26); do echo 'int x;' >"$work/tree/host/low/$i.cpp"; done
expect_breach 'host/low holds 27 files; at most 25'
fresh_tree; seq 451 | sed 's/.*/int x;/' >"$work/tree/host/low/long.cpp"
expect_breach 'host/low/long.cpp has 451 lines; at most 450'
fresh_tree; printf '  // %0125d\n' 0 >>"$work/tree/host/low/a.hpp"
expect_breach '130 columns; at most 128'
fresh_tree; for i in 1 2 3 4 5 6; do seq 450 | sed 's/.*/int x;/' >"$work/tree/host/low/$i.cpp"; done
expect_breach 'host/low holds 2701 lines; at most 2500'
fresh_tree; seq 451 | sed 's/.*/int x;/' >"$work/tree/host/low/long.inl"
expect_breach 'host/low/long.inl has 451 lines; at most 450'
for folder in tests/low scripts/part; do
  fresh_tree; mkdir -p "$work/tree/$folder/inner"; for i in $(seq 25); do echo 'int x;' >"$work/tree/$folder/$i.cpp"; done
  echo 'int x;' >"$work/tree/$folder/inner/b.cpp"; echo 'x' >"$work/tree/$folder/b.txt"
  sh "$here/host_folders.sh" "$work/tree" "$work/table.txt" >/dev/null || { echo "FAIL: refused 25 files in $folder"; exit 1; }
  echo 'x = 1' >"$work/tree/$folder/b.py"
  expect_breach "$folder holds 26 files; at most 25"
  fresh_tree; mkdir -p "$work/tree/$folder"; for i in 1 2; do seq 1251 >"$work/tree/$folder/$i.sh"; done
  expect_breach "$folder holds 2502 lines; at most 2500"
done

# A folder with steps: two subfolders, and a file of its own that uses both.
tree_of_steps() {
  fresh_tree
  mkdir -p "$work/tree/host/high/first" "$work/tree/host/high/second/inner"
  echo 'int x;' >"$work/tree/host/high/first/a.hpp"
  echo '#include "host/high/first/a.hpp"' >"$work/tree/host/high/second/inner/b.hpp"
  echo '#include "host/high/second/inner/b.hpp"' >"$work/tree/host/high/top.hpp"
  printf 'low:\nhigh:  low\nhigh/part:\nhigh/first:\nhigh/second: first\n' >"$work/table.txt"
}
tree_of_steps
sh "$here/host_folders.sh" "$work/tree" "$work/table.txt" >/dev/null || { echo "FAIL: refused steps in order"; exit 1; }
tree_of_steps; echo '#include "host/high/second/inner/b.hpp"' >>"$work/tree/host/high/first/a.hpp"
expect_breach 'host/high/first/a.hpp:2: high/first includes host/high/second/inner/b.hpp; its line does not name second'
tree_of_steps; echo '#include "host/high/top.hpp"' >>"$work/tree/host/high/first/a.hpp"
expect_breach 'host/high/first/a.hpp:2: high/first includes host/high/top.hpp, which stands above its subfolders'
tree_of_steps; echo 'int x;' >"$work/tree/host/high/second/inner/b.hpp"
expect_breach 'high/second does not use high/first'
tree_of_steps; mkdir "$work/tree/host/high/third"; echo 'int x;' >"$work/tree/host/high/third/c.hpp"
expect_breach 'host/high/third is not listed'
tree_of_steps; sed -i 's/^high.first:/& second/' "$work/table.txt"
expect_breach 'high/first uses second, which does not stand above it'
# The circles of the real tree's folders with steps are refused.
for pair in memory/call:memory/segment/segment_hooks.hpp data/text:data/corpus/corpus.hpp \
  report/samples:report/tables/tables.hpp; do
  rm -rf "$work/real"; mkdir "$work/real"; cp -r "$root/host" "$work/real/host"
  printf '#include "host/%s"\n' "${pair#*:}" >"$work/real/host/${pair%%:*}/planted.hpp"
  if sh "$here/host_folders.sh" "$work/real" "$here/host_folders.txt" >"$work/out"; then
    echo "FAIL: accepted a circle in host/${pair%%:*}"; exit 1
  fi
  grep -qF "planted.hpp:1: ${pair%%:*} includes host/${pair#*:}; its line does not name" "$work/out" ||
    { echo "FAIL: expected the planted circle, got:"; cat "$work/out"; exit 1; }
done
echo "every rule on folders can fail"
