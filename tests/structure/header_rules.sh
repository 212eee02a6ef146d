#!/bin/sh
# header_rules.sh INCLUDE: what the C headers in INCLUDE/mneme may say; all but sdk.h, which is no part of the
# specification. Prints every breach with its file; exit code 1 if there is one. Needs gcc or clang.
#   1. a header holds declarations alone, and includes nothing but the others, stddef.h and stdint.h; no line has more than
#      100 columns, in the headers of the C++ layer too
#   2. a struct that crosses starts with struct_size and flags
#   3. types have fixed widths: no bool, no named enum, no int or size_t, no union, no bit-field
#   4. an include guard named after the file, and extern "C" around functions
#   5. constants of an enum have values of their own, and flags of a family (MNEME_TIER_*) bits of their own
# That no struct has hidden padding, and that the headers are C and C++, is for compilers to say (header_test.sh).
set -eu
include=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/breaches"

compiler=
for name in gcc clang; do
  if [ -z "$compiler" ] && command -v "$name" >/dev/null; then compiler=$name; fi
done
[ -n "$compiler" ] || { echo "header_rules.sh: no gcc and no clang found; scripts/setup.sh installs them"; exit 1; }

# mneme_view has DLTensor's layout; mneme_attr is built for every op call and its layout is frozen; mneme_note_record is
# an ELF note, whose first words the ELF format fixes.
exempt=' mneme_view mneme_attr mneme_note_record '
# Numbers that are no flags, in families of flags.
no_flags=' MNEME_NOTE_TYPE MNEME_KERNEL_MAX_PORTS MNEME_ABI_MAJOR MNEME_ABI_MINOR MNEME_MAX_RANK '

find "$include/mneme" -type f -exec awk \
  'length > 100 { print FILENAME ":" FNR ": " length " columns, more than 100" }' {} + >>"$work/breaches"

set --
for header in "$include"/mneme/*.h; do
  [ "$header" = "$include/mneme/sdk.h" ] || [ ! -f "$header" ] || set -- "$@" "$header"
done
if [ $# -eq 0 ]; then
  echo "$include/mneme: holds no headers"
  exit 1
fi

{
  # ---- 1 ----
  grep -nHE 'static inline|__attribute__' "$@" | sed -E 's/^([^:]*):/\1: code in the specification: /' || true
  grep -nHE '^[[:space:]]*#[[:space:]]*include' "$@" | grep -vE '<std(def|int)\.h>|"mneme/[a-z]+\.h"' |
    sed -E 's/^([^:]*):/\1: includes more than stddef.h and stdint.h: /' || true

  # ---- 2 ----
  awk -v exempt="$exempt" '
    FNR == 1 { name = "" }
    /^typedef struct mneme_[a-z_]+ \{/ { name = $3; field = 0; next }
    name != "" && /^\}/ { name = ""; next }
    name != "" && /[;]/ {
      field++
      if (index(exempt, " " name " ") > 0) next
      if (field == 1 && $0 !~ /^  uint32_t struct_size;/) print FILENAME ":" FNR ": " name " does not start with uint32_t struct_size"
      if (field == 2 && $0 !~ /^  uint32_t flags;/) print FILENAME ":" FNR ": the second field of " name " is not uint32_t flags"
    }' "$@"

  # ---- 4 ----
  awk '
    function ends() {
      if (file == "") return
      if (first != "#ifndef " guard || second != "#define " guard || last != "#endif /* " guard " */")
        print file ": no include guard " guard " around all of it"
      if (calls && !is_c) print file ": declares functions without extern \"C\""
    }
    FNR == 1 {
      ends()
      file = FILENAME; guard = FILENAME; first = ""; second = ""; calls = 0; is_c = 0
      sub(/.*\//, "", guard); sub(/\.h$/, "", guard)
      guard = "MNEME_" toupper(guard) "_H_"
    }
    /^#/ && first != "" && second == "" { second = $0 }
    /^#/ && first == "" { first = $0 }
    /\(\*/ || /^[a-z].*\);$/ { calls = 1 }
    /^extern "C" \{$/ { is_c = 1 }
    { last = $0 }
    END { ends() }' "$@"

  # ---- 5, flags ----
  awk -v no_flags="$no_flags" '
    FNR == 1 { split("", seen) }
    /^#define MNEME_[A-Z]+_[A-Z0-9_]+ (\(\(uint64_t\)1 << [0-9]+\)|[0-9]+u)/ {
      if (index(no_flags, " " $2 " ") > 0) next
      split($2, words, "_")
      family = words[1] "_" words[2]
      if ($3 ~ /^\(\(uint64_t\)1/) { bit = $5 + 0 } else {
        value = $3 + 0
        bit = 0
        while (value > 1 && value % 2 == 0) { value /= 2; bit++ }
        if (value != 1) { print FILENAME ":" FNR ": the flag " $2 " is not one bit"; next }
      }
      if ((family, bit) in seen) print FILENAME ":" FNR ": " $2 " has the bit of " seen[family, bit]
      seen[family, bit] = $2
    }' "$@"

  # What the compiler sees of the headers, without comments and texts; each line with its header before it.
  for header in "$@"; do printf '#include "mneme/%s"\n' "$(basename "$header")"; done >"$work/all.c"
  "$compiler" -std=c11 -E -I"$include" "$work/all.c" 2>"$work/log" |
    awk -v folder="$include/mneme/" '
      /^# [0-9]+ "/ { file = $3; gsub(/"/, "", file); next }
      index(file, folder) == 1 && NF > 0 { gsub(/"[^"]*"/, ""); print file ": " $0 }' >"$work/seen"
  cat "$work/log"

  # ---- 3 ----
  grep -E ': .*(\b(bool|_Bool|union|int|unsigned|signed|long|short|float|size_t|ssize_t|ptrdiff_t|u?intptr_t|wchar_t|class|auto)\b|\benum +[a-z_]+|[a-z0-9_] *: *[0-9]+ *;)' \
    "$work/seen" | sed -E 's/: +/: a type without a fixed width, or a bit-field: /' || true

  # ---- 5, constants ----
  awk '
    { file = $1; sub(/^[^:]*: /, "") }
    /enum[^;]*\{/ { inside = 1; text = ""; sub(/.*\{/, "") }
    inside { text = text $0 }
    inside && /\}/ {
      inside = 0
      sub(/\}.*/, "", text)
      split("", seen)
      count = split(text, parts, ",")
      for (i = 1; i <= count; i++) {
        gsub(/ /, "", parts[i])
        if (split(parts[i], sides, "=") != 2) { print file " a constant without a value of its own: " parts[i]; continue }
        if (sides[2] in seen) print file " " sides[1] " has the value of " seen[sides[2]]
        seen[sides[2]] = sides[1]
      }
    }' "$work/seen"
} >>"$work/breaches"

if [ -s "$work/breaches" ]; then
  cat "$work/breaches"
  exit 1
fi
echo "header rules hold: $# headers"
