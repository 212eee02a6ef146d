#!/bin/sh
# doc_links_test.sh ROOT: ROOT's pages have no link that leads nowhere or out of an installation, and each rule can fail.
set -eu
root=$1
here=$(realpath "$(dirname "$0")")
sh "$here/doc_links.sh" "$root"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs" "$work/examples" "$work/plugins" "$work/scripts"
for page in README.md CONTRIBUTING.md THIRD_PARTY_NOTICES.md docs/runs.md; do echo 'A page.' >"$work/$page"; done
touch "$work/scripts/setup.sh"

# expect_breach TEXT WORDS: docs/runs.md with this text is refused with these words.
expect_breach() {
  printf 'A page.\n\n%s\n' "$1" >"$work/docs/runs.md"
  if sh "$here/doc_links.sh" "$work" >"$work/out" 2>&1; then
    echo "FAIL: accepted a page that should be refused: $1"
    exit 1
  fi
  grep -qF "docs/runs.md:3: $2" "$work/out" || { echo "FAIL: expected '$2', got:"; cat "$work/out"; exit 1; }
}

sh "$here/doc_links.sh" "$work" || { echo "FAIL: refused pages without links"; exit 1; }
expect_breach '[there](../scripts/setup.sh)' 'an installation has no scripts/setup.sh'
expect_breach '[there](absent.md#part)' 'there is no docs/absent.md'
echo "every rule on links can fail"
