#!/usr/bin/env bash
# Tries a wheel as a new user does: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_wheel.sh --wheels DIR [--steps N] [--seeds N] WHEEL

Installs the wheel into new virtual environments in a temporary folder, runs quickstart's comparison with a memory in Python as
one of its arms, reads it by `import mneme`, and tries what is seldom as it should be: no torch, another torch, a home folder
that cannot be written, an environment that was moved. Prints each command and its seconds, and fails where one fails. Needs
python3 with venv and its shared library, and no network.

scripts/check/check_debootstrap.sh --wheel WHEEL runs it on a bare Debian, as an ordinary user.

  --wheels DIR  wheels of torch, numpy and pandas for this Python; pip asks no registry
  --steps N     training steps of each model, more than 50 (default: 800, those of quickstart)
  --seeds N     models of each arm (default: 3, as in quickstart)
TEXT
}

wheel=
wheels=
steps=800
seeds=3
while (($#)); do
  case $1 in
    --wheels | --steps | --seeds)
      (($# >= 2)) || fail "$1 needs a value"
      case $1 in
        --wheels) wheels=$(realpath -m "$2") ;;
        --steps) steps=$2 ;;
        --seeds) seeds=$2 ;;
      esac
      shift
      ;;
    -*) usage_or_fail "$1" ;;
    *)
      [[ -z $wheel ]] || usage_or_fail "$1"
      wheel=$(realpath -m "$1")
      ;;
  esac
  shift
done
[[ -n $wheel && -f $wheel ]] || fail "expected a wheel, got '$wheel'; scripts/wheel.sh makes one"
[[ -d $wheels ]] || fail "--wheels '$wheels': expected a folder of wheels, which check_debootstrap.sh --wheel downloads"

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
unset VIRTUAL_ENV PYTHONPATH MNEME_PYTHON MNEME_PROGRAM XDG_CACHE_HOME
export PIP_DISABLE_PIP_VERSION_CHECK=1

# run COMMAND...: with its seconds.
run() {
  local started=$SECONDS
  printf '$ %s\n' "$*"
  "$@" || fail "'$*' failed with exit status $?"
  printf '[%d s]\n' $((SECONDS - started))
}

# refused PATTERN COMMAND...: COMMAND fails and says PATTERN (line breaks and indents count as one space).
refused() {
  local pattern=$1 output status=0
  shift
  printf '$ %s\n' "$*"
  output=$("$@" 2>&1) || status=$?
  printf '%s\n' "$output"
  ((status != 0)) || fail "'$*' succeeded, expected a failure"
  ((status < 128)) || fail "'$*' crashed with exit status $status"
  tr -s ' \n' ' ' <<<"$output" | grep -qE -e "$pattern" || fail "no '$pattern' in the output of '$*'"
}

# well_printed FILE: what a pipe got has no colours, and no line that a terminal of 80 columns breaks; paths, and the lines of a
# log, are left as they are.
well_printed() {
  ! grep -q $'\e' "$1" || fail "$1 has escape sequences"
  awk 'length > 80 && !/\/|^[0-9:]+ [a-z]+ / { print; wide = 1 } END { exit wide }' "$1" || fail "$1 has lines of more than 80 columns (above)"
}

try_without_torch() {
  say "an environment without torch, then with another one"
  run python3 -m venv bare
  run bare/bin/pip install --quiet --no-index --no-deps "$wheel"
  refused "bare/bin/python3? has no torch.*pip install 'torch==2" bare/bin/mneme --version
  run bare/bin/python -c 'import mneme; print(mneme.configs())'
  local packages=(bare/lib/python3.*/site-packages)
  mkdir -p "${packages[0]}/torch/lib" "${packages[0]}/torch-2.10.0.dist-info"
  touch "${packages[0]}/torch/__init__.py"
  echo "__version__ = '2.10.0+cpu'" >"${packages[0]}/torch/version.py"
  printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0\n' >"${packages[0]}/torch-2.10.0.dist-info/METADATA"
  refused 'torch is 2\.10\.0\+cpu, and the program computes with torch 2\.11' bare/bin/mneme --version
}

install_wheel() {
  say "an environment with torch"
  run python3 -m venv venv
  run venv/bin/pip install --quiet --no-index --find-links "$wheels" "$wheel" pandas
  export PATH=$work/venv/bin:$PATH
  run mneme --version
  run mneme doctor python
}

compare_memories() {
  say "a memory of one's own in Python"
  run mneme plugins new my_memory --lang python
  (cd my_memory && run sh test.sh) | tee test.txt
  well_printed test.txt

  say "quickstart's comparison, with this memory"
  local configs memories
  configs=$(python -c 'import mneme; print(mneme.configs())')
  memories=$configs/quickstart/memory
  run mneme compare "$configs/quickstart/copy.toml" --memory "$configs/memory/none.toml" \
    --memory "$memories/xl_cache.toml" --memory "$memories/compressive.toml" \
    --memory "$memories/continuous_ltm.toml" --memory "$memories/lamemo.toml" --memory my_memory/my_memory.py \
    --set train.steps="$steps" --seeds "$seeds" --jobs "$(nproc)" --threads 1 --run runs/quickstart 2> >(tee compare.err >&2) | tee compare.txt
  well_printed compare.txt
  well_printed compare.err
  [[ -s runs/quickstart/report/index.html ]] || fail "there is no report/index.html"
  # A reader that goes away is no error.
  { mneme report runs/quickstart 2>report.err || true; } | head -n 1
  ! grep -i error report.err || fail "mneme report complains of a closed pipe (above)"
  run python - <<'PYTHON'
import mneme

comparison = mneme.Comparison("runs/quickstart")
assert comparison.is_complete and comparison.arms[-1] == "my_memory", comparison.arms
print(comparison.verdict[0])
print(comparison.differences().head())
print(comparison.run(comparison.arms[-1], comparison.seeds[0]).losses("valid").table().describe())
PYTHON
}

try_bad_places() {
  say "another torch in the interpreter of memories"
  local other=$work/bare/bin/python3
  refused '2\.10\.0, and the program computes with 2\.11' env MNEME_PYTHON="$other" mneme doctor python
  refused '2\.10\.0.*2\.11' env MNEME_PYTHON="$other" mneme plugins try my_memory/experiment.toml --memory my_memory/my_memory.toml

  say "a home folder and a temporary folder that cannot be written"
  mkdir closed
  chmod a-w closed
  run env HOME="$work/closed" TMPDIR="$work/closed" mneme plugins describe my_memory/my_memory.py

  say "an environment that was moved"
  mv venv moved
  run moved/bin/python -m mneme doctor python
  run moved/bin/python -m mneme train my_memory/experiment.toml --memory my_memory/my_memory.toml --set train.steps=4 \
    --set train.warmup=0 --run runs/moved --quiet
}

try_without_torch
install_wheel
compare_memories
try_bad_places
say "the wheel is well, $((SECONDS / 60)) min $((SECONDS % 60)) s"
