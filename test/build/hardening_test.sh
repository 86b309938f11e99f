#!/bin/sh
# What is built is hardened:   hardening_test.sh READELF CONFIG PROGRAM LIBRARY
set -eu
readelf=$1 config=$2 program=$3 library=$4

fail() {
  echo "FAILED: $1"
  exit 1
}

for file in "$program" "$library"; do
  "$readelf" --wide --file-header --program-headers --dynamic --dyn-syms "$file" >"$file.readelf"
  has() { grep -Eq -- "$1" "$file.readelf" || fail "$file: $2"; }
  has 'Type: +DYN ' 'it is not position independent'
  has 'GNU_RELRO' 'its tables stay writable'
  has '\(BIND_NOW\)|\(FLAGS\).*BIND_NOW|Flags:.*NOW' 'its symbols are bound late, so that their table stays writable'
  has 'GNU_STACK .* RW ' 'its stack is executable'
  has '__stack_chk_fail' 'no stack protector'
  [ "$config" = Debug ] || has ' __[a-z]+_chk(@| |$)' 'no _FORTIFY_SOURCE'
  rm "$file.readelf"
done
echo 'all in order'
