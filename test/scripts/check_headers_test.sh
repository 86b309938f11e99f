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
seq 500 >"$headers/good.h"
printf '%0120d\n' 0 >>"$headers/delayqueue.h"
sh "$check" "$folder" >"$folder/out" || fail 'good headers are refused'
[ ! -s "$folder/out" ] || fail 'it reports good headers'

printf '\n%0121d\n' 0 >"$headers/asio.h"
: >"$headers/forgotten.h"
for number in $(seq 16); do
  echo "#include <delayqueue/more$number.h>" >>"$headers/delayqueue.h"
  : >"$headers/more$number.h"
done
! sh "$check" "$folder" >"$folder/out" || fail 'bad headers are accepted'
cat >"$folder/expected" <<'END'
./asio.h:2: more than 120 columns
./forgotten.h: missing in delayqueue.h
20 headers, more than 18
END
sort "$folder/out" | diff - "$folder/expected" || fail 'it reports something else'
