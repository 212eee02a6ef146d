#!/usr/bin/env bash
# check_commits_test.sh PROJECT WORK: scripts/check_commits.sh in a repository of its own, below WORK.
set -euo pipefail
project=$1 work=$2
rm -rf "$work"
mkdir -p "$work/scripts"
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

die() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# commit MESSAGE [LINES]: a commit of so many new lines.
commit() {
  seq "${2:-1}" >>lines.txt
  git add -A
  git commit -q -F - <<<"$1"
}

# refused WORDS COMMAND...: it fails and says so.
refused() {
  local words=$1 said
  shift
  if said=$("$@" 2>&1); then die "succeeded, expected '$words': $*"; fi
  grep -qF -- "$words" <<<"$said" || die "no '$words' in: $said"
}

git init -q .
commit "a title without a scope, before the check was added"
bash "$project/scripts/check_commits.sh" | grep -q "nothing to check" || die "checked what was made before"
cp "$project/scripts/check_commits.sh" scripts/
commit "scripts: add the check" 30  # the commit that adds it is not checked
check=(bash scripts/check_commits.sh)
"${check[@]}" | grep -qF "0 commits: every message has its form" || die "no commit is no breach"
commit "base: one line"
commit $'compare, report: many lines\n\nA reason.' 300
"${check[@]}" | grep -qF "2 commits: every message has its form" || die "refused good commits"

# Each breach, alone.
for case in "no scope here|names no scope" \
  "base: a title that is far too long for the seventy-two columns of a terminal's log|has 82 columns: expected at most 72" \
  "base: one thing; another thing|holds more than one change"; do
  git checkout -q -B good HEAD
  commit "${case%%|*}"
  refused "${case#*|}" "${check[@]}" HEAD~1..HEAD
  refused "1 of 3 messages are to be mended" "${check[@]}"
  git reset -q --hard HEAD~1
done
commit "base: twenty lines need no body" 20
"${check[@]}" HEAD~1..HEAD >/dev/null || die "refused a small commit without a body"
commit "base: an empty body" 21
refused "21 lines changed and no body says why" "${check[@]}" HEAD~1..HEAD
commit $'base: a body of signatures alone\n\nSigned-off-by: a <a@b>' 21
refused "21 lines changed and no body says why" "${check[@]}" HEAD~1..HEAD
git commit -q --allow-empty -F - <<<$'base: a title\nthat goes on'
refused "the second line is not empty" "${check[@]}" HEAD~1..HEAD
refused "git knows no commits 'nowhere'" "${check[@]}" nowhere
refused "unknown argument '--al'" "${check[@]}" --al

# The hook refuses the commit before it is made.
"${check[@]}" --install | grep -q "git checks the message" || die "not installed"
before=$(git rev-parse HEAD)
seq 30 >>lines.txt
git add -A
refused "30 lines changed and no body says why" git commit -q -m "base: an empty body"
refused "the title has 82 columns" git commit -q \
  -m "base: a title that is far too long for the seventy-two columns of a terminal's log" -m "A reason."
[[ $(git rev-parse HEAD) == "$before" ]] || die "the commit was made"
git commit -q -m "base: thirty lines" -m "A reason." || die "the hook refused a good commit"
"${check[@]}" --install >/dev/null || die "cannot be installed twice"
echo 'exit 0' >"$(git rev-parse --git-path hooks/commit-msg)"
refused "is there already" "${check[@]}" --install
echo "every rule on commits can fail"
