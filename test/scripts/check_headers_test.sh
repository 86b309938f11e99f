#!/bin/sh
# scripts/check_headers accepts good headers, and reports each kind of bad one.
#   check_headers_test.sh SCRIPT
set -eu
check=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
headers=$folder/lib/include/delayqueue
mkdir -p "$headers/detail"

fail() {
  echo "FAILED: $1"
  cat "$folder/out"
  exit 1
}

echo '#include <delayqueue/good.h>' >"$headers/delayqueue.h"
seq 150 >"$headers/good.h"
printf '%0120d\n' 0 >>"$headers/delayqueue.h"
sh "$check" "$folder" >"$folder/out" || fail 'good headers are refused'
[ ! -s "$folder/out" ] || fail 'it reports good headers'

seq 151 >"$headers/detail/long.h"
printf '\n%0121d\n' 0 >"$headers/asio.h"
: >"$headers/forgotten.h"
! sh "$check" "$folder" >"$folder/out" || fail 'bad headers are accepted'
cat >"$folder/expected" <<'END'
./asio.h:2: more than 120 columns
./detail/long.h: more than 150 lines
./forgotten.h: missing in delayqueue.h
END
sort "$folder/out" | diff - "$folder/expected" || fail 'it reports something else'
