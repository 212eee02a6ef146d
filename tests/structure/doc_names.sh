#!/bin/sh
# doc_names.sh ROOT [FILE...]: names that the documentation uses exist in the sources below ROOT. Prints every breach with
# file and line; exit code 1 if there is one. Without FILE: README.md, CONTRIBUTING.md, docs/*.md, plugins/*/README.md.
#   1. plugin ids and parameters in checkpoints: org.mneme.NAME has a folder plugins/NAME, and
#      memory.TIER.ID.LAYER.PARAMETER names a parameter that it declares
#   2. function groups: mneme.GROUP/REVISION
#   3. ops: `NAME/REVISION`
#   4. identifiers of the C ABI and of the build: mneme_NAME, MNEME_NAME (MNEME_PREFIX_* stands for several). A line "| 0.3 | ..."
#      of a table tells what a version changed, and may name what is gone
#   5. what a page's section "What no memory of this tree uses yet" names in its table's first column is used by no source below
#      plugins/ and examples/
set -eu
root=$1
shift
if [ $# -eq 0 ]; then
  set -- "$root"/README.md "$root"/CONTRIBUTING.md "$root"/docs/*.md
  for page in "$root"/plugins/*/README.md; do
    if [ -f "$page" ]; then set -- "$@" "$page"; fi
  done
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/breaches"

# found EXPRESSION FILE...: "file:line:match" of every match.
found() {
  expression=$1
  shift
  grep -noE -H "$expression" "$@" || true
}

# breach_unless_listed WHAT LIST: of lines "file:line:name" on stdin those whose name is not in LIST.
breach_unless_listed() {
  while IFS= read -r line; do
    name=${line##*:}
    grep -qxF -- "$name" "$2" || echo "${line%:*}: no $1 is called $name" >>"$work/breaches"
  done
}

# ---- 1 ----
for folder in "$root"/plugins/*/; do
  name=$(basename "$folder")
  [ -f "$folder/CMakeLists.txt" ] || continue
  echo "org.mneme.$name" >>"$work/ids"
  grep -rhoE 'parameter\("[a-z0-9_]+"' "$folder" | sed "s/parameter(\"\\(.*\\)\"/org.mneme.$name \\1/" >>"$work/parameters"
  # Without its first word an id is somebody else's.
  found "(^|[^a-z.])([a-z0-9.]*\\.)?mneme\\.$name\\b" "$@" | grep -vE "org\\.mneme\\.$name$" |
    while IFS= read -r line; do echo "${line%:*}: the id is org.mneme.$name, not ${line##*:}" >>"$work/breaches"; done
done
if [ -f "$work/ids" ]; then # without plugins/ there is nothing to hold the pages to
  found 'org\.mneme\.[a-z0-9_]+' "$@" | breach_unless_listed "plugin" "$work/ids"
  found 'memory\.[0-9]+\.[a-z0-9_.]+\.([0-9]+|model)\.[a-z0-9_]+' "$@" | while IFS= read -r line; do
    name=${line##*:}
    id=$(echo "$name" | sed -E 's/memory\.[0-9]+\.(.*)\.([0-9]+|model)\.[a-z0-9_]+$/\1/')
    grep -qxF -- "$id ${name##*.}" "$work/parameters" ||
      echo "${line%:*}: no plugin $id declares the parameter of $name" >>"$work/breaches"
  done
fi

# ---- 2 ----
sed -nE 's/^#define MNEME_GROUP_[A-Z]+ "(.*)"$/\1/p' "$root"/sdk/include/mneme/*.h >"$work/groups"
found 'mneme\.[a-z]+/[0-9]+' "$@" | breach_unless_listed "function group" "$work/groups"

# ---- 3 ----
sed -nE 's/^MNEME_SDK_(OP|UNARY|BINARY|REDUCTION|SINGLE_REDUCTION)\(([a-z0-9_]+)\)$/`\2\/1`/p; s/^MNEME_SDK_OPERATOR\(.*, ([a-z]+)\)$/`\1\/1`/p' \
  "$root"/sdk/include/mneme/cpp/ops_*.hpp >"$work/ops"
found '`[a-z0-9_]+/[0-9]+`' "$@" | breach_unless_listed "op" "$work/ops"

# ---- 4 ----
{
  grep -rhoE '\b(mneme|MNEME)_[A-Za-z0-9_]+' "$root/sdk/include" "$root/sdk/kernels" "$root/sdk/cmake" "$root/sdk/template" \
    "$root/cmake" "$root/CMakeLists.txt" "$root"/*/CMakeLists.txt "$root/host" "$root/scripts"
  grep -rhoE --include='*.[ch]pp' '\b(mneme|MNEME)_[A-Za-z0-9_]+' "$root/tests"
} | sort -u >"$work/identifiers"
found '^\| [0-9]+\.[0-9]+ \|' "$@" | cut -d: -f1,2 >"$work/changes"
found '\b(mneme|MNEME)_[A-Za-z0-9_]+\*?' "$@" | while IFS= read -r line; do
  name=${line##*:}
  if grep -qxF -- "${line%:*}" "$work/changes"; then continue; fi
  case $name in
    MNEME_UPPER) continue ;; # how macros are written
    *'*') grep -qE "^${name%\*}" "$work/identifiers" && continue ;;
    *_) grep -qE "^$name" "$work/identifiers" && continue ;;
    *) grep -qxF -- "$name" "$work/identifiers" && continue ;;
  esac
  echo "${line%:*}: nothing is called $name" >>"$work/breaches"
done

# ---- 5 ----
for page in "$@"; do
  awk '/^## /{inside = /What no memory of this tree uses yet/} inside && /^\| `/{print FNR ":" $0}' "$page" |
    while IFS= read -r line; do
      echo "$line" | cut -d'|' -f2 | grep -oE '`[^`]+`' | tr -d '`' | while IFS= read -r name; do
        user=$(grep -rlwF --include='*.c' --include='*.cpp' --include='*.hpp' --include='*.cu' -e "$name" "$root/plugins" \
          "$root/examples" | sort | head -1)
        [ -z "$user" ] || echo "$page:${line%%:*}: ${user#"$root"/} uses $name" >>"$work/breaches"
      done
    done
done

if [ -s "$work/breaches" ]; then
  cat "$work/breaches"
  exit 1
fi
echo "names in $# pages exist"
