#!/bin/sh
# doc_links.sh ROOT: every relative link in the pages of ROOT leads to a file that is there, and that an installation has
# at the same place: cmake/Install.cmake puts README.md, CONTRIBUTING.md, the licence and the notices, docs/, examples/ and
# the plugins' pages into one folder.
set -eu
root=$1
cd "$root"
find README.md CONTRIBUTING.md THIRD_PARTY_NOTICES.md docs examples plugins -name '*.md' -not -path '*/build/*' | sort |
  while IFS= read -r page; do
    grep -noE '\[[^]]+\]\([^) ]+\)' "$page" | sed 's/:\[[^]]*\](/ /; s/)$//; s/#.*//' | while read -r line target; do
      [ -n "$target" ] || continue  # a part of the same page
      case $target in http://* | https://* | mailto:*) continue ;; esac
      path=$(realpath -m --relative-to=. "$(dirname "$page")/$target")
      [ -e "$path" ] || echo "$page:$line: there is no $path"
      case $path in
        docs/* | examples | examples/* | README.md | CONTRIBUTING.md | LICENSE | NOTICE | THIRD_PARTY_NOTICES.md) ;;
        plugins/*/*.md) ;;
        *) echo "$page:$line: an installation has no $path" ;;
      esac
    done
  done >"${TMPDIR:-/tmp}/doc_links.$$"
if [ -s "${TMPDIR:-/tmp}/doc_links.$$" ]; then
  cat "${TMPDIR:-/tmp}/doc_links.$$"
  rm -f "${TMPDIR:-/tmp}/doc_links.$$"
  exit 1
fi
rm -f "${TMPDIR:-/tmp}/doc_links.$$"
