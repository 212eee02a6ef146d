#!/usr/bin/env bash
# usage: finds_fault.sh REGEX PROGRAM [argument...]
# Runs tests against a kernel with a planted fault, which have to fail and to say what REGEX matches. Lines of theirs are
# printed behind a bar: they are not results of this test.
set -u
expected=$1
shift
said=$("$@" 2>&1)
status=$?
if ((status == 0)); then
  echo "the fault was not found: the tests passed"
elif ! found=$(grep -E -m 1 -e "$expected" <<<"$said"); then
  echo "the tests ended with $status, without a line like: $expected"
else
  echo "the fault is found: the tests ended with $status, and said"
  printf "  | %s\n" "$found"
  exit 0
fi
printf "%s\n" "$said" | sed "s/^/  | /"
exit 1
