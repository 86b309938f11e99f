#!/bin/sh
# The shared library shows what the public headers mark with DELAYQUEUE_EXPORT, all of that, and nothing else:
#   exports_test.sh NM LIBRARY STATIC_LIBRARY HEADERS_FOLDER
set -eu
nm=$1 library=$2 static=$3 headers=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $1"
  cat "$2"
  exit 1
}

# Marked classes, marked functions outside of classes, and marked static functions of structs that are not marked.
sed -n 's/^\(class\|struct\) DELAYQUEUE_EXPORT \([A-Za-z]*\).*/\2/p' "$headers"/*.h | sort -u >"$work/classes"
sed -n 's/^\(\[\[nodiscard\]\] \)\{0,1\}DELAYQUEUE_EXPORT [^(]*[ *&]\([a-z_]*\)(.*/\2/p' "$headers"/*.h | sort -u >"$work/functions"
sed -n 's/^  DELAYQUEUE_EXPORT static [^(]*[ *&]\([a-z_]*\)(.*/\1/p' "$headers"/*.h | sort -u >"$work/members"
[ -s "$work/classes" ] && [ -s "$work/functions" ] && [ -s "$work/members" ] || fail 'nothing is marked' /dev/null
classes=$(paste -sd '|' "$work/classes")
functions=$(paste -sd '|' "$work/functions")
members=$(paste -sd '|' "$work/members")
public="^((typeinfo|typeinfo name|vtable) for delayqueue::($classes)\$|delayqueue::($classes)::[~a-z_A-Z=]+(\(|\$)|delayqueue::($functions)\(|delayqueue::[A-Za-z]+::($members)\()"

# Names only, as "delayqueue::ack()", of these types of symbols.
names() { types=$1; shift; "$nm" "$@" --demangle --defined-only | sed -n "s/^[0-9a-f]* [$types] //p" | 
  sed 's/\[abi:[a-z0-9]*\]//' | sort -u; }
names TDVWuRB --dynamic "$library" >"$work/exported"
# Each of them has the name of the ABI, so that objects of two ABIs do not link with each other.
grep -Ev "delayqueue::v[0-9]+_[0-9]+::" "$work/exported" >"$work/unversioned" || true
[ ! -s "$work/unversioned" ] || fail 'exported, without the name of the ABI:' "$work/unversioned"
sed -i 's/delayqueue::v[0-9]*_[0-9]*::/delayqueue::/g' "$work/exported"
grep -Ev "$public" "$work/exported" >"$work/surplus" || true
[ ! -s "$work/surplus" ] || fail 'exported, but not public:' "$work/surplus"

# A public function that is not marked has to be, too: declared in a header, defined in the library.
declared=$(sed -n 's/^[a-zA-Z[][^=(]*[ *&]\([a-z_]*\)(.*;.*/\1/p' "$headers"/*.h | grep -v '^operator' | sort -u | paste -sd '|')
names T "$static" | sed 's/delayqueue::v[0-9]*_[0-9]*::/delayqueue::/g' | grep -E "^delayqueue::($declared)\(|^delayqueue::($classes)::[~a-z_A-Z=]+\(|^delayqueue::[A-Za-z]+::($members)\(" |
  grep -E "$public|^delayqueue::($declared)\(" >"$work/wanted"
comm -23 "$work/wanted" "$work/exported" >"$work/lacking"
[ ! -s "$work/lacking" ] || fail 'public, but not exported:' "$work/lacking"
echo "$(wc -l <"$work/exported") symbols, all of them public"
