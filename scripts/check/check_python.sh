#!/usr/bin/env bash
# Checks the Python package: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_python.sh [--python PYTHON] [--program FILE] [--steps N]

Checks types with mypy --strict, runs the tests of python/tests, and executes the notebook examples/python/own_text.ipynb in a
temporary folder. Skipped, with a line that says why: types without mypy, the tests that need the program without one, the
notebook without nbclient and ipykernel, or where `import torch` fails.

  --python PY     the Python that has numpy, pytest, and what is named above (default: python3); all of it has one made by
                    python3 -m venv DIR
                    DIR/bin/pip install 'torch==2.11.*' numpy pandas altair pytest mypy nbclient ipykernel
  --program FILE  the program (default: MNEME_PROGRAM, else build/release/bin/mneme)
  --steps N       training steps of the notebook's models (default: 60, a minute on two cores)
TEXT
}

python=python3
program=${MNEME_PROGRAM:-$root/build/release/bin/mneme}
steps=60
while (($#)); do
  case $1 in
    --python | --program | --steps)
      (($# >= 2)) || fail "$1 needs a value"
      case $1 in
        --python) python=$2 ;;
        --program) program=$(realpath -m "$2") ;;
        --steps) steps=$2 ;;
      esac
      shift
      ;;
    *) usage_or_fail "$1" ;;
  esac
  shift
done

# has MODULE...: whether the Python can import them all.
has() {
  local module
  for module in "$@"; do
    "$python" -c "import $module" 2>/dev/null || { echo "$module"; return 1; }
  done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1
[[ ! -x $program ]] || export MNEME_PROGRAM=$program

if missing=$(has mypy); then
  "$python" -m mypy --cache-dir "$work/mypy" || fail "mypy --strict found errors (above)"
else
  say "skipped: types; $python has no $missing"
fi

missing=$(has pytest numpy) || fail "$python has no $missing, which the tests need"
"$python" -m pytest -q -rs -p no:cacheprovider python/tests || fail "tests of the package failed (above)"

if ! missing=$(has nbclient nbformat ipykernel torch); then
  say "skipped: the notebook; $python has no $missing"
elif [[ ! -x $program ]]; then
  say "skipped: the notebook; there is no program $program"
else
  MNEME_NOTEBOOK_STEPS=$steps "$python" - "$root/examples/python/own_text.ipynb" "$work" <<'PYTHON' ||
import sys

import nbclient
import nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": sys.argv[2]}}).execute()
cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
assert all(cell.outputs for cell in cells[-7:]), "a cell of results shows nothing"
for cell in cells:
    for output in cell.outputs:
        print("".join(output.get("data", {}).get("text/plain", output.get("text", ""))))
PYTHON
    fail "the notebook failed (its error is above)"
fi
say "the Python package is well"
