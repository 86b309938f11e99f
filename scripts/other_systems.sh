#!/bin/bash
# Runs both commands of the README, or another command, on a copy of this checkout in a bare Debian.
#
#   scripts/other_systems.sh [--keep] bookworm|trixie [folder = build/systems] [command ...]
#
# A bare Debian is what debootstrap's minimal variant installs: no compiler, no make, no redis-server. It is made in
# folder/RELEASE.base once and kept there. Each run works in a fresh copy of it, folder/RELEASE, which is removed at
# the end. With --keep the copy stays, and the next run with --keep continues in it.
#
# Needs Debian, root, debootstrap (apt-get install debootstrap), and 4 GB of disk space. The packages come from this
# machine's mirrors and are verified with its keys. The mounts are made in a mount namespace that ends with this script.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "other_systems: $1" >&2; exit 2; }

keep=no
if [ "${1-}" = --keep ]; then keep=yes; shift; fi
release=${1-}
case $release in bookworm | trixie) shift ;; *) fail "usage: $0 [--keep] bookworm|trixie [folder] [command ...]" ;; esac
folder=${1-build/systems}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- sh -c 'scripts/quickstart.sh && scripts/test.sh'
[ "$(id -u)" = 0 ] || fail "cannot make a bare $release: only root can mount and chroot; run this script as root"
command -v debootstrap >/dev/null || fail "cannot make a bare $release: debootstrap is not installed"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
base=$folder/$release.base
tree=$folder/$release

# The sources of packages of this machine, for the other release.
sources() {
  local file=/etc/apt/sources.list.d/debian.sources
  [ -e $file ] || file=/etc/apt/sources.list
  sed "/^#/d; s/$(. /etc/os-release && echo "$VERSION_CODENAME")/$release/g" $file
}

if [ ! -e "$base" ]; then
  mirror=$(sources | grep -oE 'https?://[^ ]+' | head -1)
  # A folder that begins with its mirror only gets its name when it is complete.
  rm -rf "$base.part"
  debootstrap --variant=minbase "$release" "$base.part" "$mirror"
  mv "$base.part" "$base"
fi
if [ $keep = no ] || [ ! -e "$tree" ]; then
  rm -rf "$tree"
  cp -a --reflink=auto "$base" "$tree"
  rm -f "$tree"/etc/apt/sources.list
  suffix=sources
  sources | grep "^URIs:" >/dev/null || suffix=list
  sources >"$tree/etc/apt/sources.list.d/debian.$suffix"
fi
[ $keep = yes ] || trap 'rm -rf "$tree"' EXIT
cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
apt-config dump Acquire | grep -i proxy >"$tree/etc/apt/apt.conf.d/01proxy" || true
mkdir -p "$tree/checkout"
# What is built stays; sources that were removed since the last run do not.
find "$tree/checkout" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - |
  tar -xf - -C "$tree/checkout"

echo "other_systems: $release: $*"
status=0
# In braces: bash reads all of it before it runs, so that a change of this file meanwhile does no harm.
{
# shellcheck disable=SC2016  # the inner shell expands the variables
unshare --mount --pid --fork --kill-child --propagation private sh -euc '
  tree=$1; shift
  mount --rbind /dev "$tree/dev"
  mount -t proc proc "$tree/proc"
  mount --bind /sys "$tree/sys"
  mount -t tmpfs tmpfs "$tree/run"
  exec chroot "$tree" /usr/bin/env -C /checkout HOME=/root TERM=dumb "$@"' sh "$tree" "$@" || status=$?
echo "other_systems: $release: exit code $status"
exit $status
}
