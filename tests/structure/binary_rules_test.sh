#!/bin/sh
# binary_rules_test.sh FILE...: plugins need neither LibTorch nor the host, export exactly mneme_negotiate_v1, carry the
# note, and have no unique symbols. Fails on zero files.
set -eu
[ $# -gt 0 ] || { echo "FAIL: no plugin given"; exit 1; }
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# check FILE: prints one line a breach.
check() {
  exported=$(nm -D --defined-only "$1" | awk '{print $NF}' | tr '\n' ' ')
  [ "$exported" = "mneme_negotiate_v1 " ] || echo "$1: exports '$exported'; expected mneme_negotiate_v1 alone"
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while IFS= read -r library; do
    case $library in
      libc.so.*|libm.so.*|libdl.so.*|librt.so.*|libpthread.so.*|libstdc++.so.*|libgcc_s.so.*|ld-linux*) ;;
      *) echo "$1: needs $library; expected the C and C++ runtimes alone" ;;
    esac
  done
  readelf -SW "$1" | grep -q '\.note\.mneme' || echo "$1: has no section .note.mneme"
  if readelf -Ws "$1" | grep -q ' UNIQUE '; then echo "$1: has unique symbols"; fi
}

for file in "$@"; do
  [ -f "$file" ] || { fail "$file does not exist"; continue; }
  breaches=$(check "$file")
  [ -z "$breaches" ] || fail "$breaches"
done

# The check can fail: an ordinary library breaks it.
ordinary=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(libm\.so\..*\|libc\.so\..*\)\]/\1/p' | head -1)
path=$(ldd "$1" | awk -v name="$ordinary" '$1 == name { print $3 }')
if [ -n "$path" ] && [ -z "$(check "$path")" ]; then fail "$path passes as a plugin"; fi
[ "$failures" -eq 0 ] || exit 1
echo "$# plugins hold the rules"
