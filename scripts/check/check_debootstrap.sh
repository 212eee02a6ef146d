#!/usr/bin/env bash
# Runs the tests (or a command) on a bare Debian made with debootstrap, in a fresh clone of the committed tree; or tries a wheel,
# or mneme-report, there.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_debootstrap.sh [--debian 12|13] [--hide-nvcc | --with-nvcc] [--root DIR] [--keep]
                                          [command [argument...]]
       scripts/check/check_debootstrap.sh --wheel FILE [--wheels DIR] [--debian 12|13] [--root DIR] [--keep]
                                          [command [argument...]]
       scripts/check/check_debootstrap.sh --report PROGRAM --bundle FILE [--debian 12|13] [--root DIR] [--keep]

Makes a minimal Debian root, clones the committed tree into it, and runs the command there as root, in the clone,
without a terminal (default: scripts/test.sh). Needs root, debootstrap and git. The mirror, proxies and certificates of
this machine are passed on.

With --wheel the root has Python and no compiler, no clone and no network, and the command runs as an ordinary user in that
user's home folder (default: scripts/check/check_wheel.sh, which installs the wheel and compares memories).

With --report the root has the packages of the libraries that PROGRAM needs, which must all be Debian's, and no network; inside,
PROGRAM verifies the bundle.

  --debian N    12 (default; Python 3.11) or 13 (Python 3.13)
  --hide-nvcc   no CUDA toolkit inside (default)
  --with-nvcc   this machine's CUDA toolkit, read-only, at /usr/local/cuda
  --wheel FILE  the wheel that scripts/wheel.sh made; inside it is in /srv/wheel
  --wheels DIR  wheels of torch, numpy and pandas, read-only in /srv/wheels; pip downloads those of this Debian's Python that
                are missing, 3 GB at the first time (default: build/wheels)
  --report PROGRAM
                mneme-report, built on the same Debian
  --bundle FILE a bundle that `mneme report --bundle` wrote
  --root DIR    make the root in DIR; an existing one made by this script is used again, with a fresh clone
  --keep        leave the root in place at the end
TEXT
}

debian=12
with_nvcc=no
keep=no
target=
wheel=
report=
bundle=
wheels=$root/build/wheels
while (($#)); do
  case $1 in
    --with-nvcc) with_nvcc=yes ;;
    --hide-nvcc) with_nvcc=no ;;
    --keep) keep=yes ;;
    --root | --wheel | --wheels | --report | --bundle | --debian)
      (($# >= 2)) || fail "$1 needs a value"
      case $1 in
        --root) target=$(realpath -m "$2") ;;
        --wheel) wheel=$(realpath -m "$2") ;;
        --wheels) wheels=$(realpath -m "$2") ;;
        --report) report=$(realpath -m "$2") ;;
        --bundle) bundle=$(realpath -m "$2") ;;
        --debian) debian=$2 ;;
      esac
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    --)
      shift
      break
      ;;
    -*)
      usage >&2
      fail "unknown argument '$1'"
      ;;
    *) break ;;
  esac
  shift
done
command=("$@")
packages=
case $debian in
  12) release=bookworm python=3.11 ;;
  13) release=trixie python=3.13 ;;
  *) fail "--debian $debian: expected 12 or 13" ;;
esac
if [[ -n $wheel ]]; then
  [[ -f $wheel ]] || fail "--wheel $wheel: there is no such file; scripts/wheel.sh makes one"
  ((${#command[@]})) || command=(bash /srv/scripts/check/check_wheel.sh --wheels /srv/wheels "/srv/wheel/$(basename "$wheel")")
  packages=python3,python3-venv,libpython$python
fi
# The packages of the libraries that a program needs, but for the C library, which every root has.
packages_of() {  # PROGRAM
  local library owner
  ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | while IFS= read -r library; do
    owner=$(dpkg-query -S "$(realpath "$library")" 2>/dev/null || dpkg-query -S "$library" 2>/dev/null) ||
      fail "$1 needs $library, which no package of Debian has"
    printf '%s\n' "${owner%%:*}"
  done | grep -v '^libc6$' | sort -u | paste -sd,
}
if [[ -n $report$bundle ]]; then
  [[ -x $report ]] || fail "--report $report: expected the program mneme-report"
  [[ -f $bundle ]] || fail "--bundle $bundle: there is no such file; mneme report --bundle makes one"
  ((${#command[@]} == 0)) || fail "--report runs mneme-report verify, and no other command"
  command=(/srv/report/mneme-report verify /srv/report/bundle.tar)
  packages=$(packages_of "$report")
fi
((${#command[@]})) || command=(scripts/test.sh)

(($(id -u) == 0)) || fail "chroot and debootstrap need root; run this script as root"
for tool in debootstrap git unshare; do
  command -v "$tool" >/dev/null || fail "$tool is missing; apt-get install debootstrap git util-linux"
done

[[ -n $target ]] || target=$(mktemp -d "${TMPDIR:-/tmp}/mneme_debian.XXXXXX")
clone=$target/srv/mneme

# The mirror of Debian that this machine's apt uses; nothing elsewhere, and debootstrap takes its own default.
debian_mirror() {
  # shellcheck disable=SC2016  # apt expands it
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sort -u | head -n 1
}

make_root() {
  local made=$target/.mneme_debian$debian${wheel:+_wheel}${report:+_report}
  if [[ -e $made ]]; then
    say "using the Debian $debian root in $target"
    return
  fi
  [[ -z $(ls -A "$target") ]] || fail "$target is not empty and was not made by this script; name a new folder"
  say "making a Debian $debian root in $target"
  local mirror proxy
  mirror=$(debian_mirror)
  proxy=$(apt-config dump Acquire::http::Proxy 2>/dev/null | sed -n 's/.*"\(.*\)".*/\1/p')
  env ${proxy:+http_proxy="$proxy"} debootstrap --variant=minbase ${packages:+--include="$packages"} "$release" "$target" \
    ${mirror:+"$mirror"} >"$target.log" 2>&1 || {
    tail -n 20 "$target.log" >&2
    fail "debootstrap failed (the end of its log is above)"
  }
  rm -f "$target.log"
  chmod 755 "$target"  # mktemp's are root's alone, and an ordinary user runs inside
  touch "$made"
}

# Downloads the wheels for Debian's Python, whichever runs here, that the folder lacks: those of every C library up to Debian 12's.
download_wheels() {
  local minor download=(python3 -m pip download -q --no-cache-dir --only-binary=:all: --python-version "$python" --implementation cp
    --platform manylinux2014_x86_64)
  for minor in {5..36}; do download+=(--platform "manylinux_2_${minor}_x86_64"); done
  download+=(--dest "$wheels" 'torch==2.11.*' numpy pandas)
  mkdir -p "$wheels"
  if "${download[@]}" --no-index --find-links "$wheels" >/dev/null 2>&1; then return; fi
  say "downloading torch, numpy and pandas for Python $python into $wheels"
  "${download[@]}" || fail "pip could not download wheels (its message is above)"
}

# Network settings of this machine: names, apt's proxies and logins, pip's configuration, trusted certificates.
copy_network_settings() {
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
    [[ -r $file ]] && cp -L "$file" "$target$file"
  done
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/* /etc/apt/auth.conf /etc/apt/auth.conf.d/*; do
    if [[ -f $file ]] && grep -qE 'Acquire|machine ' "$file"; then
      cp -L "$file" "$target$file"
    fi
  done
  if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
    mkdir -p "$target/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$target/etc/ssl/machine_certificates.crt"
    [[ -e $target/etc/ssl/certs/ca-certificates.crt ]] ||
      cp -L /etc/ssl/certs/ca-certificates.crt "$target/etc/ssl/certs/ca-certificates.crt"
  fi
}

# Prints the environment inside, one NAME=value a line.
inner_environment() {
  local name path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  [[ $with_nvcc == yes ]] && path=/usr/local/cuda/bin:$path
  printf '%s\n' "PATH=$path" HOME=/root LANG=C.UTF-8 TERM=dumb CI=true
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY all_proxy \
    PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_PROXY PIP_DEFAULT_TIMEOUT; do
    [[ -n ${!name:-} ]] && printf '%s=%s\n' "$name" "${!name}"
  done
  if [[ -e $target/etc/ssl/machine_certificates.crt ]]; then
    for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO; do
      printf '%s=/etc/ssl/machine_certificates.crt\n' "$name"
    done
  fi
}

clone_tree() {
  [[ -z $(git status --porcelain) ]] || say "note: uncommitted changes are not part of the clone"
  rm -rf "$clone"
  git clone -q --no-hardlinks "$root" "$clone"
  say "cloned $(git -C "$clone" rev-parse --short HEAD)"
}

# Runs the command inside. The mounts live in a mount namespace of their own and vanish with it.
run_inside() {
  local toolkit='' environment
  if [[ $with_nvcc == yes ]]; then
    command -v nvcc >/dev/null || fail "--with-nvcc: there is no nvcc on PATH"
    toolkit=$(realpath "$(dirname "$(realpath "$(command -v nvcc)")")/..")
    [[ -x $toolkit/bin/nvcc ]] || fail "--with-nvcc: expected a toolkit around $(command -v nvcc), found no bin/nvcc in $toolkit"
  fi
  mapfile -t environment < <(inner_environment)
  inside "$toolkit:/usr/local/cuda" -- env -i "${environment[@]}" bash -c 'cd /srv/mneme && exec "$@"' inner "${command[@]}"
}

# Runs the command inside as an ordinary user, without a network.
run_as_user() {
  id=$(chroot "$target" id -u researcher 2>/dev/null) || {
    chroot "$target" useradd --create-home --shell /bin/bash researcher
    id=$(chroot "$target" id -u researcher)
  }
  inside "$(dirname "$wheel"):/srv/wheel" "$wheels:/srv/wheels" "$root/scripts:/srv/scripts" -- \
    env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/researcher LANG=C.UTF-8 TERM=dumb ${OMP_NUM_THREADS:+OMP_NUM_THREADS="$OMP_NUM_THREADS"} \
    bash -c 'cd && exec "$@"' inner "${command[@]}"
}

# Verifies the bundle inside, where no LibTorch is.
run_report() {
  local torch
  torch=$(find "$target" -name 'libtorch*' -print -quit)
  [[ -z $torch ]] || fail "the root has $torch"
  mkdir -p "$target/srv/report"
  cp "$report" "$target/srv/report/mneme-report"
  cp "$bundle" "$target/srv/report/bundle.tar"
  inside -- env -i PATH=/usr/bin:/bin LANG=C.UTF-8 "${command[@]}"
}

# inside [FROM:TO...] -- COMMAND...: with the folders FROM of this machine, read-only, at TO.
inside() {
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --propagation private ${no_network:+--net} bash -euc '
    target=$1 user=$2
    shift 2
    mount -t proc proc "$target/proc" 2>/dev/null || mount --rbind /proc "$target/proc"
    mount --rbind /dev "$target/dev"
    for (( ; ; )); do
      pair=$1
      shift
      [[ $pair != -- ]] || break
      [[ -n ${pair%%:*} ]] || continue
      mkdir -p "$target${pair#*:}"
      mount --bind -o ro "${pair%%:*}" "$target${pair#*:}"
    done
    exec chroot ${user:+--userspec="$user"} "$target" "$@" </dev/null' \
    inner "$target" "${id:-}" "$@"
}

no_network=$wheel$report
mkdir -p "$target"
make_root
status=0
if [[ -n $wheel ]]; then
  download_wheels
  say "running in the Debian $debian root as an ordinary user: ${command[*]}"
  started=$SECONDS
  run_as_user || status=$?
elif [[ -n $report ]]; then
  say "running in the Debian $debian root, without a network: ${command[*]}"
  started=$SECONDS
  run_report || status=$?
else
  copy_network_settings
  clone_tree
  say "running in the Debian $debian root, nvcc $([[ $with_nvcc == yes ]] && echo present || echo hidden): ${command[*]}"
  started=$SECONDS
  run_inside || status=$?
fi
say "finished with exit status $status after $((SECONDS - started)) s"
if [[ $keep == yes ]]; then
  say "the root is left in $target"
else
  rm -rf --one-file-system "$target"
fi
exit "$status"
