#!/usr/bin/env bash
# Checks the messages of commits: see usage.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/check_commits.sh [RANGE]
       scripts/check_commits.sh --message FILE
       scripts/check_commits.sh --install

Checks that a commit's title names its scope ("compare: pair losses by document"), has at most 72 columns and holds one
change, and that a body says why where more than 20 lines changed. Merges are left out.

  RANGE           the commits to check, as git log takes them; without it all commits behind the one that added this script
  --message FILE  instead, the message of the commit that is being made, of the changes in the index
  --install       makes git call this for each commit in this checkout: the hook commit-msg
TEXT
}

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

readonly most_columns=72 lines_without_body=20
breaches=0

# check NAME LINES: the message on standard input, of a commit that changed so many lines.
check() {
  local name=$1 lines=$2 title='' second='' body='' line breach=''
  refuse() {
    printf '%s: %s\n  %s\n' "$name" "$1" "$title"
    breach=yes
  }
  IFS= read -r title || true
  IFS= read -r second || true
  while IFS= read -r line || [[ -n $line ]]; do
    # Lines that git or a tool adds are no reason.
    [[ $line =~ ^[A-Z][A-Za-z-]*-[Bb]y:\  || $line == '#'* ]] || body+=${line//[[:space:]]/}
  done
  [[ $title =~ ^[A-Za-z0-9_./,\ -]+:\ [^\ ] ]] || refuse "the title names no scope: expected \"scope: what changes\""
  ((${#title} <= most_columns)) || refuse "the title has ${#title} columns: expected at most $most_columns"
  [[ $title != *\;* ]] || refuse "the title holds more than one change (\";\"): make a commit of each"
  [[ -z $second ]] || refuse "the second line is not empty"
  if ((lines > lines_without_body)) && [[ -z $body ]]; then
    refuse "$lines lines changed and no body says why: expected one where more than $lines_without_body lines change"
  fi
  [[ -z $breach ]] || breaches=$((breaches + 1))
}

# Lines added and removed, of the output of git's --numstat; a file that is not text has none.
count_lines() { awk '$1 != "-" && NF >= 3 { sum += $1 + $2 } END { print sum + 0 }'; }

check_range() {
  local commit count=0 range=$1 first
  if [[ -z $range ]]; then
    first=$(git log --diff-filter=A --format=%H -- scripts/check_commits.sh | tail -1)
    if [[ -z $first ]]; then
      echo "no commit of this checkout added scripts/check_commits.sh: nothing to check"
      return
    fi
    range=$first..HEAD
  fi
  local commits
  commits=$(git rev-list --reverse --no-merges "$range") || fail "git knows no commits '$range'"
  for commit in $commits; do
    check "$(git rev-parse --short "$commit")" "$(git show --format= --numstat "$commit" | count_lines)" \
      < <(git log -1 --format=%B "$commit")
    count=$((count + 1))
  done
  ((breaches == 0)) || fail "$breaches of $count messages are to be mended: git rebase --interactive, reword"
  echo "$count commits: every message has its form"
}

case ${1:-} in
  -h | --help) usage ;;
  --message)
    (($# == 2)) || fail "--message needs the file of the message"
    [[ -r $2 ]] || fail "--message $2: no such file"
    check "commit" "$(git diff --cached --numstat | count_lines)" <"$2"
    ((breaches == 0)) || fail "the commit was not made; its message is in $2"
    ;;
  --install)
    cd "$(dirname "${BASH_SOURCE[0]}")/.."
    hook=$(git rev-parse --git-path hooks/commit-msg)
    if [[ -e $hook ]] && ! grep -q check_commits.sh "$hook"; then
      fail "$hook is there already: call scripts/check_commits.sh --message \"\$1\" in it"
    fi
    mkdir -p "$(dirname "$hook")"
    printf '#!/bin/sh\nexec bash scripts/check_commits.sh --message "$1"\n' >"$hook"
    chmod +x "$hook"
    echo "git checks the message of each commit: $hook"
    ;;
  -*)
    usage >&2
    fail "unknown argument '$1'"
    ;;
  *) check_range "${1:-}" ;;
esac
