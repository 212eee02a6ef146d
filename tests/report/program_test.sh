#!/bin/sh
# program_test.sh PROGRAM MNEME FIXTURE VERSION [--plain]: mneme-report is small, links no LibTorch (with --plain, of a build
# without sanitizers), writes what mneme writes, verifies bundles, and says what is wrong.
set -eu
report=$1 mneme=$2 fixture=$3 version=$4 plain=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# needed FILE: the libraries that it asks for and that are not of the C and C++ runtimes or small ones of the distribution.
needed() {
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE \
    '^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|spdlog|fmt|tomlplusplus|pcre2-8|utf8proc)|ld-linux-.*)\.so' || true
}
if [ -n "$plain" ]; then
  [ -z "$(needed "$report")" ] || fail "$report needs $(needed "$report")"
  needed "$mneme" | grep -q '^libtorch_cpu' || fail "the rule passes mneme, which needs LibTorch"
  strip -o "$work/stripped" "$report"
  size=$(wc -c <"$work/stripped")
  [ "$size" -lt 10000000 ] || fail "$report has $size bytes without symbols; expected some MB"
fi

# says STATUS PATTERN COMMAND...: the exit status, and the pattern in what is printed.
says() {
  expected=$1 pattern=$2
  shift 2
  status=0
  "$@" >"$work/out" 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "exit status $status, expected $expected: $*: $(cat "$work/out")"
  grep -qE -e "$pattern" "$work/out" || fail "no '$pattern' in: $*: $(cat "$work/out")"
}
says 0 "^mneme-report $version\$" "$report" --version
says 0 '^  verify ' "$report" --help
says 0 '^  mneme-report verify motif.tar$' "$report" verify --help
says 0 '^\.SH NAME$' "$report" man
says 0 '^mneme\\-report ' "$report" man
says 2 '^mneme-report: error: expected a subcommand, report, plan, verify, man, got none; see mneme-report --help$' "$report"
says 2 '^mneme-report: error: there is no subcommand "verfy" \(did you mean "verify"\?\); see mneme-report --help$' "$report" verfy
says 2 '^mneme-report: error: .*absent.tar' "$report" verify "$work/absent.tar"

# Equal bytes: what is printed, the folder, the bundle.
"$fixture" "$work/runs" >"$work/log"
for program in "$report" "$mneme"; do
  name=$(basename "$program")
  says 0 '"format": "mneme-report"' "$program" report "$work/runs/task" --pairs --quiet --format json --out "$work/$name" \
    --bundle "$work/$name.tar"
  mv "$work/out" "$work/$name.out"
done
cmp "$work/mneme-report.out" "$work/mneme.out" || fail "the reports that are printed differ"
diff -r "$work/mneme-report" "$work/mneme" || fail "the folders of the reports differ"
cmp "$work/mneme-report.tar" "$work/mneme.tar" || fail "the bundles differ"

for program in "$report" "$mneme"; do
  says 0 '"format": "mneme-plan"' "$program" plan "$work/runs/task" --json -
  mv "$work/out" "$work/$(basename "$program").out"
done
cmp "$work/mneme-report.out" "$work/mneme.out" || fail "the plans differ"
says 2 'is no pilot' "$report" plan "$work/mneme.tar"

says 0 'agree' "$report" verify "$work/mneme.tar"
LC_ALL=C sed 's/"format": "mneme-report"/"format": "mneme-repost"/' "$work/mneme.tar" >"$work/changed.tar"
says 1 'report/report\.json' "$report" verify "$work/changed.tar"
head -c 3000 "$work/mneme.tar" >"$work/cut.tar"
says 2 '^mneme-report: error: .*cut\.tar' "$report" verify "$work/cut.tar"

[ "$failures" -eq 0 ] || exit 1
echo "mneme-report holds${size:+; $size bytes without symbols}"
