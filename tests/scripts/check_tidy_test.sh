#!/usr/bin/env bash
# check_tidy_test.sh PROJECT WORK: scripts/check_tidy.sh in a repository of its own, below WORK, with planted mistakes.
set -euo pipefail
project=$1 work=$2
rm -rf "$work"
mkdir -p "$work/scripts" "$work/host" "$work/bin"
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

die() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# said WORDS COMMAND...: it succeeds and says so; refused: it fails and says so.
said() {
  local words=$1 output
  shift
  output=$("$@" 2>&1) || die "failed, expected '$words': $output"
  grep -qF -- "$words" <<<"$output" || die "no '$words' in: $output"
}
refused() {
  local words=$1 output
  shift
  if output=$("$@" 2>&1); then die "succeeded, expected '$words': $output"; fi
  grep -qF -- "$words" <<<"$output" || die "no '$words' in: $output"
}
commit() { git add -A && git commit -q -m "base: $1"; }

git init -q .
echo /build/ >.gitignore
cp "$project/scripts/check_tidy.sh" "$project/scripts/common.sh" scripts/
cp "$project/.clang-tidy" .
check=(bash scripts/check_tidy.sh)
mistake='#include <string>\n#include <utility>\nusing Text = std::string;\nText twice(Text a) {\n  Text b = std::move(a);\n  return a + b;\n}\n'
printf "$mistake" >host/old.cpp
commit "the check, and a mistake before it"
mkdir bin/none
for tool in bash git dirname; do ln -s "$(command -v $tool)" bin/none/; done
said "skipped: mistakes are looked for with clang-tidy 14" env PATH="$work/bin/none" bash scripts/check_tidy.sh
refused "unknown argument '--minute'" "${check[@]}" --minute
refused "--minutes needs a number of at least 1, got '0'" "${check[@]}" --minutes 0
refused "git knows no commit 'nowhere'" "${check[@]}" nowhere
if ! { clang-tidy-14 --version || clang-tidy --version; } 2>/dev/null | grep -q 'version 14\.'; then
  echo "skipped: clang-tidy 14 is not here"
  exit
fi

refused "compile_commands.json is not there" "${check[@]}"
mkdir -p build/release/Unity
printf '#include "%s/host/old.cpp"\n\n#include "%s/host/new.cpp"\n' "$work" "$work" >build/release/Unity/unity_0_cxx.cxx
cat >build/release/compile_commands.json <<JSON
[{"directory": "$work/build/release", "file": "$work/build/release/Unity/unity_0_cxx.cxx",
  "command": "c++ --param ggc-min-expand=100 -DCOUNT=\\"2\\" -include absent.hxx -std=c++20 -o a.o -c unity_0_cxx.cxx"},
 {"directory": "$work/build/release", "file": "$work/host/needs.cpp",
  "command": "c++ -isystem /x/torch/include -std=c++20 -o b.o -c $work/host/needs.cpp"}]
JSON
said "no mistakes in 0 changed sources" "${check[@]}"
printf '#include "new.hpp"\nint size() { return COUNT; }\n' >host/new.cpp
echo 'int size();' >host/new.hpp
echo 'int needs() { return 1; }' >host/needs.cpp
commit "sound sources"
said "no mistakes in 2 changed sources" "${check[@]}"
git mv host/old.cpp host/moved.cpp
commit "a move is no change"
said "no mistakes in 2 changed sources" "${check[@]}"
git mv host/moved.cpp host/old.cpp
commit "back"

printf "$mistake" >>host/new.cpp
refused "'a' used after it was moved" "${check[@]}"
refused "mistakes in 1 of 2 changed sources" "${check[@]}"
commit "a mistake"
refused "mistakes in 1 of 2 changed sources" "${check[@]}"
refused "mistakes in 1 of 1 changed sources" "${check[@]}" HEAD~1
git checkout -q HEAD~1 -- host/new.cpp
commit "the mistake is mended"
printf "$mistake" >>host/new.hpp # found through the source beside it
refused "host/new.hpp:6" "${check[@]}" HEAD
git checkout -q host/new.hpp
echo 'int other() { return 1; }' >host/other.cpp
git add -A
said "host/other.cpp (build/release does not compile it)" "${check[@]}"
said "no mistakes in 2 changed sources" "${check[@]}"

# Time that has run out, by a clock that starts at 0 and shows 700 seconds from then on.
printf '#!/bin/sh\n[ -e %s ] && echo 700 || echo 0\n: >%s\n' "$work/started" "$work/started" >bin/date
chmod +x bin/date
output=$(PATH="$work/bin:$PATH" "${check[@]}") || die "time that has run out is no mistake: $output"
for file in host/new.cpp host/needs.cpp; do grep -qx "  $file" <<<"$output" || die "$file is not named as left out: $output"; done
echo "every rule on mistakes can fail"
