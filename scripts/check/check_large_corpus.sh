#!/usr/bin/env bash
# Prepares and trains on a small and a large synthetic corpus, and compares the anonymous memory that they take.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_large_corpus.sh [--large MB] [--limit MB] [--steps N] [--mneme FILE]

Makes two corpora of words, of 2 MB and of 2000 MB (--large), in a temporary folder (TMPDIR; the large one needs three times
its size there), prepares both with `mneme data prepare`, trains 200 steps on each, and prints the largest RssAnon of each
program. Fails when the large corpus takes 300 MB (--limit) more than the small one.
TEXT
}

large=2000
limit=300
steps=200
mneme=$root/build/release/bin/mneme
while (($#)); do
  case $1 in
    --large | --limit | --steps | --mneme)
      (($# >= 2)) || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done
for name in large limit steps; do
  [[ ${!name} =~ ^[1-9][0-9]*$ ]] || fail "--$name needs a number of at least 1, got '${!name}'"
done
[[ -x $mneme ]] || fail "no program $mneme: build it, or name it with --mneme"
export OMP_NUM_THREADS=1

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# write_block MB FILE: lines of 12 words out of 50,000, rarer ones less often; every 400th line begins a document.
write_block() {
  awk -v bytes="$(($1 * 1000000))" 'BEGIN {
    srand(7)
    for (i = 0; i < 20000; ++i) {          # lines to choose from, so that writing is quick
      line = "line" i
      for (w = 0; w < 11; ++w) line = line " word" int(30000 * rand() * rand())
      lines[i] = line "\n"
    }
    while (written < bytes) {
      if (n++ % 400 == 0) { printf "<document>\n"; written += 11 }
      line = lines[int(20000 * rand())]
      printf "%s", line
      written += length(line)
    }
  }' >"$2"
}

# write_corpus MB FILE: blocks of at most 50 MB until there are enough.
write_corpus() {
  local block=$(($1 < 50 ? $1 : 50)) written
  write_block "$block" "$folder/block.txt"
  for ((written = 0; written < $1; written += block)); do cat "$folder/block.txt"; done >"$2"
  rm "$folder/block.txt"
}

# measure NAME COMMAND...: runs the command and sets NAME to its largest RssAnon, in kB.
measure() {
  local name=$1 most=0 now pid
  shift
  "$@" >"$folder/out.txt" 2>"$folder/err.txt" &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    now=$(awk '/^RssAnon:/ {print $2}' "/proc/$pid/status" 2>/dev/null || true)
    ((${now:-0} > most)) && most=$now
    sleep 0.05
  done
  wait "$pid" || fail "$* failed: $(tail -3 "$folder/err.txt")"
  ((most > 0)) || fail "$*: no memory was seen; is /proc mounted?"
  declare -g "$name=$most"
}

# run_corpus MB NAME: prepares and trains; sets prepare_NAME and train_NAME.
run_corpus() {
  local text=$folder/$2.txt prepared=$folder/$2
  say "$2 corpus: $1 MB"
  write_corpus "$1" "$text"
  measure "prepare_$2" "$mneme" data prepare --quiet --train "$text" --vocabulary word --documents mark \
    --document-mark '<document>' --out "$prepared"
  cat "$folder/out.txt"
  rm "$text"
  cat >"$folder/$2.toml" <<TOML
[model]
layers = 2
heads = 2
width = 32
[memory]
[data]
task = "text"
prepared = "$prepared"
[train]
segment = 32
lanes = 4
steps = $steps
TOML
  measure "train_$2" "$mneme" train "$folder/$2.toml" --run "$folder/run_$2" --threads 1 --quiet
  cat "$folder/out.txt"
}

run_corpus 2 small
run_corpus "$large" large

status=0
for work in prepare train; do
  small_name=${work}_small
  large_name=${work}_large
  more=$(((${!large_name} - ${!small_name}) / 1000))
  echo "$work: RssAnon at most ${!small_name} kB for 2 MB, ${!large_name} kB for $large MB: $more MB more (limit $limit)"
  ((more < limit)) || status=1
done
((status == 0)) || fail "the large corpus takes too much memory"
say "passed"
