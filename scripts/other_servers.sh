#!/bin/bash
# Runs the tests on other servers: redis 8 and valkey 8.1 of Debian 13. For Debian 12 on any processor.
#
#   scripts/other_servers.sh [folder = build/servers]          unpacks them into the folder and prints their versions
#   scripts/other_servers.sh --test [folder] [ctest options]   runs the tests of build/release on each of them, and on the
#                                                              redis-server on PATH
#
# The script installs nothing. It unpacks the packages and their libraries into the folder and runs the servers with the
# dynamic linker there. The packages come from this machine's mirrors and are verified with its keys. Servers that are
# in the folder already are not fetched again.
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

# apt with package lists of Debian 13 in the folder, for which no package is installed.
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
  # The servers and the libraries on which they depend.
  local packages
  mapfile -t packages < <(apt apt-get install --simulate --no-install-recommends "${servers[@]}" |
    awk '$1 == "Inst" { print $2 }' | grep -E '^(lib|zlib|redis-|valkey-)')
  (cd "$folder/apt/archives" && apt apt-get download "${packages[@]}")
  for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
  rm -r "$folder/apt"
}

# Writes a script that starts the server with its own libraries.
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

cmake --preset release >&2
cmake --build --preset release --parallel "$(getconf _NPROCESSORS_ONLN)" >&2
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
