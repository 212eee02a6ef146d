#!/usr/bin/env bash
# Runs the tests (or a command) on a bare Debian 12, made with debootstrap, in a fresh clone of the committed tree.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/check/check_debootstrap.sh [--hide-nvcc | --with-nvcc] [--root DIR] [--keep] [command [argument...]]

Makes a minimal Debian 12 root, clones the committed tree into it, and runs the command there as root, in the clone,
without a terminal (default: scripts/test.sh). Needs root, debootstrap and git. The mirror, proxies and certificates of
this machine are passed on.

  --hide-nvcc  no CUDA toolkit inside (default)
  --with-nvcc  this machine's CUDA toolkit, read-only, at /usr/local/cuda
  --root DIR   make the root in DIR; an existing one made by this script is used again, with a fresh clone
  --keep       leave the root in place at the end
TEXT
}

with_nvcc=no
keep=no
target=
while (($#)); do
  case $1 in
    --with-nvcc) with_nvcc=yes ;;
    --hide-nvcc) with_nvcc=no ;;
    --keep) keep=yes ;;
    --root)
      (($# >= 2)) || fail "--root needs a folder"
      target=$(realpath -m "$2")
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
((${#command[@]})) || command=(scripts/test.sh)

(($(id -u) == 0)) || fail "chroot and debootstrap need root; run this script as root"
for tool in debootstrap git unshare; do
  command -v "$tool" >/dev/null || fail "$tool is missing; apt-get install debootstrap git util-linux"
done

[[ -n $target ]] || target=$(mktemp -d "${TMPDIR:-/tmp}/mneme_debian12.XXXXXX")
clone=$target/srv/mneme

# The mirror that this machine's apt uses for Debian 12; nothing elsewhere, and debootstrap takes its own default.
debian_mirror() {
  # shellcheck disable=SC2016  # apt expands it
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 2>/dev/null | sort -u | head -n 1
}

make_root() {
  if [[ -e $target/.mneme_debian12 ]]; then
    say "using the Debian 12 root in $target"
    return
  fi
  [[ -z $(ls -A "$target") ]] || fail "$target is not empty and was not made by this script; name a new folder"
  say "making a Debian 12 root in $target"
  local mirror proxy
  mirror=$(debian_mirror)
  proxy=$(apt-config dump Acquire::http::Proxy 2>/dev/null | sed -n 's/.*"\(.*\)".*/\1/p')
  env ${proxy:+http_proxy="$proxy"} debootstrap --variant=minbase bookworm "$target" ${mirror:+"$mirror"} \
    >"$target.log" 2>&1 || {
    tail -n 20 "$target.log" >&2
    fail "debootstrap failed (the end of its log is above)"
  }
  rm -f "$target.log"
  touch "$target/.mneme_debian12"
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
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --propagation private bash -euc '
    target=$1 toolkit=$2
    shift 2
    mount -t proc proc "$target/proc" 2>/dev/null || mount --rbind /proc "$target/proc"
    mount --rbind /dev "$target/dev"
    if [[ -n $toolkit ]]; then
      mkdir -p "$target/usr/local/cuda"
      mount --bind -o ro "$toolkit" "$target/usr/local/cuda"
    fi
    exec chroot "$target" "$@" </dev/null' \
    inner "$target" "$toolkit" env -i "${environment[@]}" bash -c 'cd /srv/mneme && exec "$@"' inner "${command[@]}"
}

mkdir -p "$target"
make_root
copy_network_settings
clone_tree
say "running in the Debian 12 root, nvcc $([[ $with_nvcc == yes ]] && echo present || echo hidden): ${command[*]}"
started=$SECONDS
status=0
run_inside || status=$?
say "finished with exit status $status after $((SECONDS - started)) s"
if [[ $keep == yes ]]; then
  say "the root is left in $target"
else
  rm -rf --one-file-system "$target"
fi
exit "$status"
