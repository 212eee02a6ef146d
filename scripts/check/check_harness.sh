#!/usr/bin/env bash
# Holds mneme as a model of lm-evaluation-harness against the harness' own: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_harness.sh --python PYTHON [--program FILE]

Makes a small llama folder with random weights, imports it, and runs three local tasks (multiple choice, rolling log-likelihood,
generation) of lm-evaluation-harness by its model `hf` on the folder and by `mneme` on the run. Without a carried memory samples
must agree within 1e-4; with one the rolling sums of long texts must differ. Samples of a cache and of a window with sinks go
through `mneme report --pairs`, whose difference must be that of the sums. Before that the run is certified against the losses that
transformers gives of a text (scripts/check/reference_losses.py), within 1e-4 too.

  --python PY     a Python that has lm_eval, transformers and torch
  --program FILE  the program of a build with the examples (default: MNEME_PROGRAM, else build/release/bin/mneme)
TEXT
}

python=
program=${MNEME_PROGRAM:-$root/build/release/bin/mneme}
while (($#)); do
  case $1 in
    --python | --program)
      (($# >= 2)) || fail "$1 needs a value"
      if [[ $1 == --python ]]; then python=$2; else program=$(realpath -m "$2"); fi
      shift
      ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done
[[ -n $python ]] || fail "--python is missing: a Python that has lm_eval, transformers and torch"
[[ -x $program ]] || fail "$program: no program is there; build it, or name it with --program"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MNEME_PROGRAM=$program PYTHONPATH=$root/python HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$work/cache
"$python" "$root/scripts/check/check_harness.py" "$work"
