#!/bin/sh
# doc_names_test.sh ROOT: the names in ROOT's documentation exist, and each rule can fail: a page with one wrong name is
# refused with the right words.
set -eu
root=$1
here=$(dirname "$0")
sh "$here/doc_names.sh" "$root"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect_breach TEXT WORDS: a page of this text is refused with these words.
expect_breach() {
  printf 'A page.\n\n%s\n' "$1" >"$work/page.md"
  if sh "$here/doc_names.sh" "$root" "$work/page.md" >"$work/out" 2>&1; then
    echo "FAIL: accepted a page that should be refused: $1"
    exit 1
  fi
  grep -qF "page.md:3: $2" "$work/out" || { echo "FAIL: expected '$2', got:"; cat "$work/out"; exit 1; }
}

plugin=$(for folder in "$root"/plugins/*/; do if [ -f "$folder/CMakeLists.txt" ]; then basename "$folder"; fi; done | head -1)
if [ -n "$plugin" ]; then
  expect_breach "\`mneme.$plugin\`" "the id is org.mneme.$plugin, not"
  expect_breach "memory.0.org.mneme.$plugin.1.no_such_parameter" "no plugin org.mneme.$plugin declares the parameter of"
fi
expect_breach '`org.mneme.no_such_plugin`' 'no plugin is called org.mneme.no_such_plugin'
expect_breach '`mneme.stat/1`' 'no function group is called mneme.stat/1'
expect_breach '`mneme.state/7`' 'no function group is called mneme.state/7'
expect_breach '`matmull/1`' 'no op is called `matmull/1`'
expect_breach '`mneme_row`' 'nothing is called mneme_row'
expect_breach '`MNEME_WANT_ABSORB_Y`' 'nothing is called MNEME_WANT_ABSORB_Y'
expect_breach '`MNEME_WANTED_*`' 'nothing is called MNEME_WANTED_*'
expect_breach '| version | `mneme_tensor_infos` |' 'nothing is called mneme_tensor_infos'
if [ -d "$root/examples/knn" ]; then
  printf '## What no memory of this tree uses yet\n\n| `MNEME_MERGE_REPLACE`, `MNEME_WANT_READ_Q` | for `mneme_read` |\n' >"$work/page.md"
  if sh "$here/doc_names.sh" "$root" "$work/page.md" >"$work/out" 2>&1; then
    echo "FAIL: accepted a page that calls unused what an example uses"
    exit 1
  fi
  grep -qE 'page.md:3: examples/.* uses MNEME_WANT_READ_Q$' "$work/out" || { echo "FAIL: expected the user, got:"; cat "$work/out"; exit 1; }
  [ "$(wc -l <"$work/out")" -eq 1 ] || { echo "FAIL: more is refused"; cat "$work/out"; exit 1; }
fi
printf '| 0.3 | `mneme_tensor_infos` |\n`mneme.state/1` `matmul/1` `mneme_rows` `MNEME_WANT_*` `MNEME_CUDA`\n' >"$work/page.md"
sh "$here/doc_names.sh" "$root" "$work/page.md" >/dev/null || { echo "FAIL: refused a page without a wrong name"; exit 1; }
echo "every rule on names can fail"
