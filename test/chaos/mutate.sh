#!/bin/bash
# Mutation test of the chaos test: breaks the library on purpose and runs chaos, which must fail. Takes half an hour.
#
#   test/chaos/mutate.sh [pattern]     only the mutations whose line matches the (extended) pattern
#
# Builds a copy of the tree in a temporary folder. Then, for each line of mutations.txt, changes one file there, builds
# it again, runs chaos for SECONDS_EACH (100) seconds with the schedule of SEED (2), and prints the rules that were broken.
# Fails unless every mutation breaks a rule.
set -euo pipefail
cd "$(dirname "$0")/../.."

pattern=${1:-.}
work=$(mktemp -d "${TMPDIR:-/tmp}/delayqueue-mutate-XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir "$tree"
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$tree"

cmake -S "$tree" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDELAYQUEUE_BUILD_EXAMPLES=OFF >"$work/log"
build() { cmake --build "$work/build" --target chaos >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
export TMPDIR=$work
failed=0
while IFS= read -r line; do
  [[ $line =~ ^# || -z $line ]] && continue
  grep -qE -- "$pattern" <<<"$line" || continue
  file=${line%% | *} rest=${line#* | }
  what=${rest##* | } rest=${rest% | *}
  topology=${rest##* | } expression=${rest% | *}
  cp "$tree/$file" "$work/before"
  sed -i "$expression" "$tree/$file"
  if cmp -s "$work/before" "$tree/$file"; then
    echo "ERROR (changes nothing)  $what"
    failed=1
    continue
  fi
  build
  if "$work/build/bin/chaos" --seconds "${SECONDS_EACH:-100}" --seed "${SEED:-2}" --topology "$topology" >"$work/out" 2>&1; then
    echo "SURVIVED  $what"
    failed=1
  else
    echo "KILLED    $what"
    sed -n 's/^BROKEN: /            /p; s/.* \(in_window=.*\)/            \1/p' "$work/out" | cut -c1-150
  fi
  cp "$work/before" "$tree/$file"
done <test/chaos/mutations.txt
exit $failed
