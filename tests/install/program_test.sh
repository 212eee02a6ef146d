#!/bin/bash
# program_test.sh SOURCE BUILD: installs the program out of BUILD, hides SOURCE and BUILD, and uses the installation as
# another user from an empty folder. Hiding needs a mount namespace and another user needs the superuser; where either is
# refused, strace holds the program to opening nothing of SOURCE and BUILD.
set -euo pipefail
source_dir=$(realpath "$1")
build_dir=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/mneme-install-XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
prefix=$work/prefix
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

install_component() {  # COMPONENT
  cmake --install "$build_dir" --prefix "$prefix" --component "$1" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
  }
}

is_elf() { [[ $(head -c 4 "$1" | tail -c 3) == ELF ]]; }

# No file may name the checkout or the build: not as a run path, not as a library found, not in a text.
check_file() {
  local file=$1 paths needed
  if ! is_elf "$file"; then
    if grep -qF -e "$source_dir" -e "$build_dir" "$file"; then fail "$file names the checkout"; fi
    return 0
  fi
  paths=$(readelf -d "$file" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p')
  local path
  while IFS= read -r -d : path; do
    [[ $path == \$ORIGIN* ]] || fail "$file: the run path $path is not relative to the file"
  done <<<"${paths:+$paths:}"
  needed=$(ldd "$file" 2>&1) || needed="not found: $needed"
  if grep -F -e "$source_dir" -e "$build_dir" -e "not found" <<<"$needed"; then fail "$file: see above"; fi
}

# as_user COMMAND...: in the empty folder, with nothing of this user's environment, where the checkout is not there.
can_hide=no
[[ $(id -u) != 0 ]] || ! unshare -m true 2>/dev/null || can_hide=yes
as_user() {
  local command=("$prefix/bin/mneme" "$@")
  local clean=(env -i "HOME=$work/home" "PATH=/usr/bin:/bin" OMP_NUM_THREADS=1)
  if [[ $can_hide == yes ]]; then
    unshare -m bash -c 'mount --make-rprivate / && mount -t tmpfs none "$1" && { [[ ! -d $2 ]] || mount -t tmpfs none "$2"; } &&
        cd "$3" && shift 3 && exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"' \
      _ "$source_dir" "$build_dir" "$work/home" "${clean[@]}" "${command[@]}"
  else
    (cd "$work/home" && "${clean[@]}" strace -f -qq -e trace=%file -o "$work/trace" "${command[@]}") || return
    if grep -F -e "$source_dir" -e "$build_dir" "$work/trace"; then fail "the program looks into the checkout"; fi
  fi
}

expect_done() {
  local status=0
  as_user "$@" >"$work/out" 2>"$work/err" || status=$?
  ((status == 0)) || {
    cat "$work/out" "$work/err"
    fail "exit status $status: mneme $*"
  }
}

if [[ $can_hide == no ]] && ! command -v strace >/dev/null; then
  echo "skipped: neither a mount namespace nor strace is at hand"
  exit 77
fi

chmod 755 "$work"
install_component runtime
[[ ! -e $prefix/include ]] || fail "the component runtime has headers"
install_component sdk
[[ -f $prefix/include/mneme/plugin.h ]] || fail "the component sdk has no include/mneme/plugin.h"
install_component report
for file in share/doc/mneme/{LICENSE,NOTICE,THIRD_PARTY_NOTICES.md,README.md,docs/runs.md} share/mneme-sdk/LICENSE \
  share/mneme/configs/quickstart.toml share/bash-completion/completions/mneme share/zsh/site-functions/_mneme \
  share/man/man1/mneme{,-report}.1 share/doc/mneme-report/LICENSE; do
  [[ -s $prefix/$file ]] || fail "the installation has no $file, or an empty one"
done
# The files that the examples' suite names, from its own place.
check_examples() {
  local examples=$prefix/share/doc/mneme/examples file
  while IFS= read -r file; do
    [[ -f $examples/$file ]] || fail "$examples/suite.toml names $file, which is not there"
  done < <(sed -n 's/^\(file\|experiment\) = "\(.*\)"$/\2/p' "$examples/suite.toml")
}
check_examples
bash -n "$prefix/share/bash-completion/completions/mneme" || fail "bash does not read the completion script"
while IFS= read -r -d '' file; do check_file "$file"; done < <(find "$prefix" -type f -print0)
chmod -R go+rX,go-w "$prefix"

mkdir "$work/home"
[[ $can_hide == no ]] || chown 65534:65534 "$work/home"
configs=$prefix/share/mneme/configs
short=(--threads 1 --quiet --set train.steps=12 --set train.warmup=2 --set train.save_every=6 --set eval.steps=3)

"$prefix/bin/mneme-report" --version | grep -q '^mneme-report [0-9]' || fail "mneme-report does not run"
expect_done plugins list
for plugin in "$prefix"/lib/mneme/plugins/*.so; do
  grep -qF "$(basename "$plugin"): " "$work/out" || fail "plugins list does not show $plugin: $(cat "$work/out")"
done
[[ -e $prefix/lib/mneme/plugins/xl_cache.so ]] || fail "the installation has no plugin xl_cache"
expect_done doctor
expect_done compare --help
grep -qF "mneme compare $configs/quickstart.toml --memory $configs/memory/none.toml" "$work/out" ||
  fail "the help names no experiment that is there: $(cat "$work/out")"
expect_done compare "$configs/quickstart.toml" --memory "$configs/memory/none.toml" --memory "$configs/memory/xl_cache.toml" "${short[@]}"
grep -q 'source outside the segment' "$work/out" || fail "compare prints no comparison: $(cat "$work/out")"
expect_done train "$configs/quickstart.toml" --memory "$configs/memory/xl_cache.toml" --run "$work/home/run" "${short[@]}"
grep -qF "\"path\": \"$prefix/lib/mneme/plugins/xl_cache.so\"" "$work/home/run/run.json" ||
  fail "the run used other plugins: $(grep path "$work/home/run/run.json")"
expect_done eval "$work/home/run" --threads 1 --quiet --json "$work/home/here.json"

# The run belongs to no installation: another one, which has its own plugins elsewhere, opens it.
mv "$prefix" "$work/moved"
prefix=$work/moved
check_examples
expect_done eval "$work/home/run" --threads 1 --quiet --json "$work/home/there.json"
losses() { grep -o '"loss": [0-9.]*' "$1"; }
[[ -n $(losses "$work/home/here.json") ]] || fail "eval wrote no loss"
[[ $(losses "$work/home/here.json") == "$(losses "$work/home/there.json")" ]] || fail "the moved installation has other losses"
expect_done train --resume "$work/home/run" --checkpoint 6 --threads 1 --quiet

size=$(du -sm "$prefix" | cut -f1)
torch=$(du -sm "$prefix/lib/mneme/torch" 2>/dev/null | cut -f1)
if ((failures)); then
  echo "$failures failures"
  exit 1
fi
echo "all checks passed; hidden checkout: $can_hide; $size MB installed, of which LibTorch ${torch:-0} MB"
