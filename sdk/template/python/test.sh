#!/bin/sh
# Tests of the memory: what mneme says of it. MNEME names the program where it is not on PATH.
set -eu
cd "$(dirname "$0")"
mneme=${MNEME:-mneme}

# Imported by itself.
"$mneme" plugins describe my_memory.py

# What every memory has to hold: causality, lanes, resets, gradients, errors and more, in small models.
"$mneme" plugins validate my_memory.py --jobs 2

# Two small segments, in a process with a time limit.
"$mneme" plugins try experiment.toml --memory my_memory.toml

# A short training beside one without a memory, and the report that compares them.
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
"$mneme" compare experiment.toml --memory none.toml --memory my_memory.toml --run "$runs/compare" \
  --set train.steps=4 --set train.warmup=0 --samples 0 --threads 1 --quiet
