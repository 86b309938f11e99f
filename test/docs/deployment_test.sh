#!/bin/sh
# The units of docs/deployment.md pass systemd-analyze, and its manifests are YAML.
#   deployment_test.sh PROJECT
# Ends with 77 (skipped) if neither systemd-analyze nor Python with a YAML parser is installed.
set -eu
page=$1/docs/deployment.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Writes each block of the language to a file, and prints the names of the files.
blocks() {
  awk -v begin="\`\`\`$1" -v file="$folder/block" -v suffix="$2" '
    $0 == begin { inside = 1; name = file (++count) suffix; print name; next }
    /^```/ { inside = 0 }
    inside { print >name }' "$page"
}

checked=0
if command -v systemd-analyze >/dev/null; then
  units=$(blocks ini .service)
  [ -n "$units" ] || { echo "FAILED: no unit in $page"; exit 1; }
  # The programs and users of the page do not exist on this machine.
  for unit in $units; do
    sed -i 's|^ExecStart=/usr/local/bin/[a-z-]*|ExecStart=/bin/true|; s/^User=.*/User=root/' "$unit"
    systemd-analyze verify "$unit" >"$folder/out" 2>&1 || { cat "$folder/out"; echo "FAILED: $unit"; exit 1; }
    ! grep "$unit" "$folder/out" || { echo "FAILED: systemd-analyze warns"; exit 1; }
    checked=$((checked + 1))
  done
fi
if python3 -c 'import yaml' 2>/dev/null; then
  manifests=$(blocks yaml .yaml)
  [ -n "$manifests" ] || { echo "FAILED: no manifest in $page"; exit 1; }
  for manifest in $manifests; do
    python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]["containers"]' "$manifest"
    checked=$((checked + 1))
  done
fi
if [ $checked = 0 ]; then
  echo 'skipped: neither systemd-analyze nor a YAML parser of Python is installed'
  exit 77
fi
echo "$checked files are accepted"
