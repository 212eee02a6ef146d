#!/bin/sh
# host_folders.sh ROOT [TABLE]: which folder of ROOT/host includes which, held against the table (host_folders.txt), and the
# size of folders.
# Prints every breach; exit code 1 if there is one. Needs no git and no build.
#   1. a folder of host/ is listed once, and its line names only folders above it
#   2. a file includes headers of its own folder of host/ and of those that the folder's line names; each name is needed
#   3. the same inside a folder of which the table lists subfolders ("memory/state: call tier"): each of them is listed,
#      includes the subfolders that its line names, and none of the headers beside them
#   4. no folder directly holds more than 25 files of C++ or CUDA, or 2,500 lines of them
#   5. no file has more than 450 lines, and no line of a comment more than 128 columns (clang-format cuts the others)
#   6. no folder below tests/ or scripts/ directly holds more than 25 files of C, C++, CUDA, shell or Python, or 2,500 lines
#      of them
set -eu
root=$1
table=${2:-$(dirname "$0")/host_folders.txt}
cd "$root"
status=0
find host -mindepth 2 -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.inl' -o -name '*.cu' -o -name '*.cuh' \) | sort |
  xargs awk -v table="$table" '
    function breach(text) { print text; breaches++ }
    BEGIN {
      while ((getline line < table) > 0) {
        if (line ~ /^#/ || line ~ /^[ \t]*$/) continue
        split(line, parts, ":")
        name = parts[1]
        above = ""  # what the names of the line stand for: "" or "memory/"
        if (name ~ /\//) {
          above = name
          sub(/[^\/]*$/, "", above)
          has_steps[substr(above, 1, length(above) - 1)] = 1
        }
        if (name in place) breach(table ": " name " is listed twice")
        count = split(parts[2], used, " ")
        for (i = 1; i <= count; i++) {
          if (!((above used[i]) in place)) breach(table ": " name " uses " used[i] ", which does not stand above it")
          may[name, above used[i]] = 1
        }
        place[name] = ++listed
      }
      if (listed == 0) breach(table ": lists no folder")
    }
    # "memory/state" of "host/memory/state/rows.hpp", "memory" of "host/memory/hook_driver.hpp".
    function step_of(path,    parts, count) {
      count = split(path, parts, "/")
      return count > 3 ? parts[2] "/" parts[3] : parts[2]
    }
    FNR == 1 {
      split(FILENAME, folders, "/")
      top = folders[2]
      step = step_of(FILENAME)
      if (!(top in place) && !(top in told)) { breach("host/" top " is not listed"); told[top] = 1 }
      if (top in has_steps && !(step in place) && !(step in told)) { breach("host/" step " is not listed"); told[step] = 1 }
      folder = FILENAME
      sub(/\/[^\/]*$/, "", folder)
      files[folder]++
    }
    { lines[folder]++; length_of[FILENAME] = FNR }
    /^ *\/\// && length > 128 { breach(FILENAME ":" FNR " has " length " columns; at most 128") }
    /^#include "host\// {
      split($0, quoted, "\"")
      split(quoted[2], parts, "/")
      used_top = parts[2]
      used_step = step_of(quoted[2])
      if (used_top == top) {
        if (!(top in has_steps) || step == top || step == used_step) next
        is_used[step, used_step] = 1
        if (used_step == top) breach(FILENAME ":" FNR ": " step " includes " quoted[2] ", which stands above its subfolders")
        else if (!((step, used_step) in may)) breach(FILENAME ":" FNR ": " step " includes " quoted[2] "; its line does not name " parts[3])
        next
      }
      is_used[top, used_top] = 1
      if (!((top, used_top) in may)) breach(FILENAME ":" FNR ": " top " includes " quoted[2] "; its line does not name " used_top)
    }
    END {
      for (pair in may) {
        split(pair, names, SUBSEP)
        if (!(pair in is_used)) breach(table ": " names[1] " does not use " names[2])
      }
      for (folder in files) {
        if (files[folder] > 25) breach(folder " holds " files[folder] " files; at most 25")
        if (lines[folder] > 2500) breach(folder " holds " lines[folder] " lines; at most 2500")
      }
      for (file in length_of) if (length_of[file] > 450) breach(file " has " length_of[file] " lines; at most 450")
      if (breaches == 0) printf "%d folders of host/, %d with those inside them: includes are as listed\n", listed, length(files)
      exit breaches > 0
    }' || status=1

for top in tests scripts; do
  [ -d "$top" ] || continue
  find "$top" -type f \( -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.sh' -o -name '*.py' \) | sort |
    xargs awk '
      FNR == 1 { folder = FILENAME; sub(/\/[^\/]*$/, "", folder); files[folder]++ }
      { lines[folder]++ }
      END {
        for (folder in files) {
          if (files[folder] > 25) { print folder " holds " files[folder] " files; at most 25"; breaches++ }
          if (lines[folder] > 2500) { print folder " holds " lines[folder] " lines; at most 2500"; breaches++ }
        }
        exit breaches > 0
      }' || status=1
done
exit $status
