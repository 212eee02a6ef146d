#!/bin/sh
# guide_test.sh SOURCE BUILD: follows docs/plugin-authoring.md as a new author, in an empty folder, with the installed SDK
# and the program of BUILD.
set -eu
source_dir=$1
build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build_dir" --prefix "$work/sdk" --component sdk >/dev/null
PATH="$build_dir/bin:$PATH" python3 "$source_dir/tests/install/guide.py" "$source_dir/docs/plugin-authoring.md" \
  "$work/author" "$work/sdk"
