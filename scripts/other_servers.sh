#!/bin/bash
# Other servers than this machine's redis: Debian 13's redis 8 and valkey 8.1, for Debian 12 on any processor.
#
#   scripts/other_servers.sh [folder = build/servers]          unpacks them there and prints their versions
#   scripts/other_servers.sh --test [folder] [ctest options]   runs the tests of build/release on each, and on redis-server
#
# Nothing is installed: the packages, with the libraries they need, are unpacked into the folder and run by their own
# dynamic linker. They come from the mirrors that this machine uses, and are checked with its keys. What is there
# already stays.
set -euo pipefail
cd "$(dirname "$0")/.."

test=no
if [ "${1-}" = --test ]; then test=yes; shift; fi
folder=build/servers
case "${1-}" in '' | -*) ;; *) folder=$1; shift ;; esac
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
servers=(redis-server valkey-server)
sources=/etc/apt/sources.list.d/debian.sources
[ -e $sources ] || sources=/etc/apt/sources.list

# apt with lists of its own, of Debian 13, that knows nothing as installed.
apt() {
  local command=$1; shift
  "$command" -qq -o Dir::Etc::sourcelist="$folder/apt/debian13.${sources##*.}" -o Dir::Etc::sourceparts=- \
    -o Dir::State="$folder/apt" -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt" \
    -o APT::Sandbox::User=root "$@"
}

unpack() {
  mkdir -p "$folder"/apt/{lists/partial,archives/partial} "$folder"/root "$folder"/bin
  sed '/^#/d; s/bookworm/trixie/g' $sources >"$folder/apt/debian13.${sources##*.}"
  apt apt-get update
  # All that they depend on, but for what is no library.
  local packages
  mapfile -t packages < <(apt apt-get install --simulate --no-install-recommends "${servers[@]}" |
    awk '$1 == "Inst" { print $2 }' | grep -E '^(lib|zlib|redis-|valkey-)')
  (cd "$folder/apt/archives" && apt apt-get download "${packages[@]}")
  for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
  rm -r "$folder/apt"
}

# A program that starts the server with the libraries it was made for.
wrap() {
  local linker libraries
  linker=$(find "$folder/root" -name 'ld-linux*' -print -quit)
  libraries=$(find "$folder/root" -name 'libc.so.6' -printf '%h' -quit)
  printf '#!/bin/sh\nexec "%s" --argv0 %s --library-path "%s" "%s" "$@"\n' \
    "$linker" "$1" "$libraries" "$folder/root/usr/bin/$1" >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}

version() { "$1" --version | grep -oE 'v=[0-9.]+' | cut -d= -f2; }

for server in "${servers[@]}"; do
  if [ ! -x "$folder/bin/$server" ]; then
    unpack
    for each in "${servers[@]}"; do wrap "$each"; done
  fi
  echo "$folder/bin/$server $(version "$folder/bin/$server")"
done
[ $test = yes ] || exit 0

[ -x build/release/bin/delayqueue_test ] || {
  echo "build/release has no tests: run scripts/test.sh first" >&2
  exit 1
}
line='%-14s | %-8s | %6s | %7s | %6s\n'
table=$(printf "$line" server version passed skipped failed)
failed=0
for server in "$(command -v redis-server)" "${servers[@]/#/$folder/bin/}"; do
  log=$folder/$(basename "$server")-$(version "$server").log
  DELAYQUEUE_REDIS_SERVER=$server ctest --preset release "$@" 2>&1 | tee "$log" || failed=1
  count() { grep -cE "^ *[0-9]+/[0-9]+ Test .*$1 +[0-9.]+ sec" "$log" || true; }
  table+=$'\n'$(printf "$line" "$(basename "$server")" "$(version "$server")" \
    "$(count Passed)" "$(count Skipped)" "$(count '(Failed|Timeout|Exception.*|Not Run)')")
done
printf '\n%s\n' "$table"
exit $failed
