#!/bin/sh
# Finds tests that fail now and then: runs each short test N times, every second time beside a busy machine, and lists
# which failed, how often, and the files with their output. Ends with 1 if a test failed.
#
#   scripts/flaky.sh N [arguments for ctest]      e.g. scripts/flaky.sh 10 -R '^consumer/'
#
# It runs what scripts/test.sh has built in build/release; DELAYQUEUE_BUILD names another folder. The busy machine is one
# endless loop for each core, beside the tests. The output of failed tests is kept in the folder flaky of that build.
set -u
cd "$(dirname "$0")/.."

runs=${1-}
case "$runs" in
  '' | *[!0-9]* | 0*)
    echo "flaky.sh: N is the number of runs of each test, from 1; it is '$runs'" >&2
    exit 2
    ;;
esac
shift
build=${DELAYQUEUE_BUILD:-build/release}
if ! [ -f "$build/CTestTestfile.cmake" ]; then
  echo "flaky.sh: $build has no tests; run scripts/test.sh first" >&2
  exit 2
fi
cd "$build" || exit 2
cores=$(getconf _NPROCESSORS_ONLN)
export DELAYQUEUE_SEEDS="${DELAYQUEUE_SEEDS:-60}"
kept=$PWD/flaky
rm -rf "$kept"
mkdir "$kept" || exit 2

burners=
stop_burners() {
  [ -z "$burners" ] || kill $burners 2>/dev/null
  burners=
}
trap stop_burners EXIT
trap 'exit 130' INT TERM
start_burners() {
  i=0
  while [ $((i += 1)) -le "$cores" ]; do
    # It looks now and then whether this script still runs.
    sh -c 'while kill -0 "$1"; do n=0; while [ $((n += 1)) -lt 100000 ]; do :; done; done' burner $$ "$kept" 2>/dev/null &
    burners="$burners $!"
  done
}

# Appends a line "test<tab>file" for each test that failed in the last run, and keeps what it printed in the file.
keep_failures() {  # <number of the run> <how>
  sed 's/^[0-9]*://' Testing/Temporary/LastTestsFailed.log 2>/dev/null | sort -u | while IFS= read -r test; do
    file=$kept/$(printf '%s' "$test" | tr -c 'A-Za-z0-9_.-' _).run$1$2.txt
    TEST=$test awk '/^[0-9]+\/[0-9]+ Testing: / { name = $0; sub(/^[^:]*: /, "", name); mine = name == ENVIRON["TEST"] }
                    mine' Testing/Temporary/LastTest.log >"$file"
    printf '%s\t%s\n' "$test" "$file" >>"$kept/failures"
  done
}

run=0
while [ $((run += 1)) -le "$runs" ]; do
  how=
  if [ $((run % 2)) = 0 ]; then
    how=-busy
    start_burners
  fi
  rm -f Testing/Temporary/LastTestsFailed.log
  ctest -LE long --no-tests=error --parallel "$((cores * 3))" "$@" >"$kept/ctest.txt" 2>&1
  result=$?
  stop_burners
  grep 'tests passed, .* out of' "$kept/ctest.txt" | sed "s|^|run $run of $runs${how:+, busy}: |"
  keep_failures "$run" "$how"
  if [ $result != 0 ] && ! [ -s Testing/Temporary/LastTestsFailed.log ]; then
    cat "$kept/ctest.txt" >&2
    exit 2
  fi
done

rm -f "$kept/ctest.txt"
if ! [ -s "$kept/failures" ]; then
  printf '\nno test failed\n'
  exit 0
fi
printf '\nfailed:\n'
sort "$kept/failures" | awk -F '\t' -v runs="$runs" '
  $1 != test { if (test) print "  " test ": " count " of " runs files; test = $1; count = 0; files = "" }
  { ++count; files = files "\n    " $2 }
  END { print "  " test ": " count " of " runs files }'
exit 1
