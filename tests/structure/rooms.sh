#!/bin/sh
# rooms.sh ROOT: the folders of ROOT/host as rooms.txt says. Prints every breach; exit code 1 if there is one. Needs no
# git and no build.
#   1. a room is listed once, and uses only rooms above it
#   2. a file includes only files of its own room and of the rooms that its room's line names; each name is needed
#   3. no folder directly holds more than 25 files of C++ or 2,500 lines of them
#   4. no file has more than 450 lines
set -eu
root=$1
table=${2:-$(dirname "$0")/rooms.txt}
cd "$root"
find host -mindepth 2 -type f \( -name '*.cpp' -o -name '*.hpp' \) | sort |
  xargs awk -v table="$table" '
    function breach(text) { print text; breaches++ }
    BEGIN {
      while ((getline line < table) > 0) {
        if (line ~ /^#/ || line ~ /^[ \t]*$/) continue
        split(line, parts, ":")
        room = parts[1]
        if (room in place) breach(table ": " room " is listed twice")
        count = split(parts[2], used, " ")
        for (i = 1; i <= count; i++) {
          if (!(used[i] in place)) breach(table ": " room " uses " used[i] ", which does not stand above it")
          may[room, used[i]] = 1
        }
        place[room] = ++rooms
      }
      if (rooms == 0) breach(table ": no rooms")
    }
    FNR == 1 {
      split(FILENAME, folders, "/")
      room = folders[2]
      if (!(room in place) && !(room in told)) { breach("host/" room " is not listed"); told[room] = 1 }
      folder = FILENAME
      sub(/\/[^\/]*$/, "", folder)
      files[folder]++
    }
    { lines[folder]++; length_of[FILENAME] = FNR }
    /^#include "host\// {
      split($0, quoted, "\"")
      split(quoted[2], parts, "/")
      used_room = parts[2]
      if (used_room == room) next
      is_used[room, used_room] = 1
      if (!((room, used_room) in may)) breach(FILENAME ":" FNR ": " room " includes " quoted[2] "; its line does not name " used_room)
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
      if (breaches == 0) printf "%d rooms, %d folders: the arrows hold\n", rooms, length(files)
      exit breaches > 0
    }'
