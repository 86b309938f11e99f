#!/bin/bash
# Mutation test of the Lua scripts and of sends, of ids, of the layout of partitions, of the places and leases of
# deliveries, of the takes of consumers, of the times of schedules, and of the batches, busy waits and partitions of
# producers: removes checks and runs the tests, which must fail. Takes minutes.
#
#   scripts/mutate.sh [pattern]     only the mutations whose line matches the (extended) pattern
#
# Builds a copy of the tree in a temporary folder. Then, for each line of test/store/mutations.txt, changes one file
# there, builds the tests again and runs the model test; if that passes, the other tests of test/store and test/spec,
# those of the layout in test/queue, and those of places and leases in test/consumer. For a file of lib/producer, it runs
# the tests of test/producer, and those of partitions in test/faults, instead; for one of those that decide what a consumer
# takes, those of takes and wake-ups in test/consumer; for one of lib/redis, those of pipelines; for the times of
# schedules, those in test/schedules. Prints
#   KILLED    and the test that failed
#   SURVIVED  no test failed: the check is unnecessary, or a test is missing
#   ERROR     the mutation changes nothing, or its result is not valid Lua
# Fails unless all mutations are killed. The model tests read DELAYQUEUE_SEEDS.
set -euo pipefail
cd "$(dirname "$0")/.."

pattern=${1:-.}
# Not grep -q: it ends at the first match, and then the grep before it fails.
if ! grep -vE '^(#|$)' test/store/mutations.txt | grep -E -- "$pattern" >/dev/null; then
  echo "mutate.sh: no line of test/store/mutations.txt matches '$pattern'" >&2
  exit 2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/delayqueue-mutate-XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/tree

mkdir "$tree"
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$tree"

echo "== building"
cmake -S "$tree" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O1 \
  -DDELAYQUEUE_BUILD_EXAMPLES=OFF >"$work/log"
build() { cmake --build "$work/build" --target delayqueue_test >"$work/log" 2>&1; }
build || { cat "$work/log"; exit 1; }

run() { timeout 300 "$work/build/bin/delayqueue_test" --abort-after=1 "$@" >"$work/log" 2>&1; }
model() { run --source-file='*/test/store/model_test.cc'; }
others() {
  run --source-file='*/test/store/*,*/test/spec/*,*/test/queue/layout_*,*/test/consumer/delivery_table_*,*/test/consumer/verdict_inbox_*,*/test/consumer/lease_keeper_*' \
    --source-file-exclude='*/test/store/model_test.cc'
}
pipelines() { run --source-file='*/test/redis/pipeline_*'; }
producer() { run --source-file='*/test/producer/*,*/test/faults/partitions_*'; }
takes() {
  run --source-file='*/test/consumer/plan_*,*/test/consumer/link_*,*/test/consumer/many_queues_*,*/test/consumer/wake_*'
}
slots() {
  run --source-file='*/test/schedules/cron_*,*/test/schedules/slots_*,*/test/schedules/times_*,*/test/schedules/zone_*'
}
model && others && pipelines && producer && takes && slots || { cat "$work/log"; echo "The tests fail without any mutation."; exit 1; }

# Prints the result for the changed file.
verdict() {
  build || { cat "$work/log"; exit 1; }
  local by=model
  if [[ $script == lib/redis/* ]]; then
    by=pipelines
  elif [[ $script == lib/producer/* ]]; then
    by=producer
  elif [[ $script =~ ^lib/consumer/(plan|intake|consumer_loop|link|lane)\. ]]; then
    by=takes
  elif [[ $script =~ ^lib/schedules/(cron|slots|zone)\. ]]; then
    by=slots
  elif model; then
    by=others
  fi
  if [ "$by" != model ] && "$by"; then
    echo SURVIVED
  elif grep -q 'Error compiling script' "$work/log"; then
    echo 'ERROR (no Lua)'
  else
    echo "KILLED by $by"
  fi
}

killed=0 all=0
while IFS= read -r line; do
  [[ $line =~ ^# || -z $line ]] && continue
  grep -qE -- "$pattern" <<<"$line" || continue
  script=${line%% | *} rest=${line#* | }
  expression=${rest%% | *} what=${rest#* | }
  file=$tree/scripts/lua/$script.lua
  if [[ $script == */* ]]; then file=$tree/$script; fi
  cp "$file" "$work/original"
  scripts/mutated "$work/original" "$expression" >"$file"
  if cmp -s "$work/original" "$file"; then
    result='ERROR (changes nothing)'
  else
    result=$(verdict)
  fi
  cp "$work/original" "$file"
  all=$((all + 1))
  if [[ $result == KILLED* ]]; then killed=$((killed + 1)); fi
  printf '%-24s %s: %s\n' "$result" "$script" "$what"
done <test/store/mutations.txt

echo "== $killed of $all mutations killed"
[ "$killed" = "$all" ]
