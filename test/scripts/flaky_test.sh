#!/bin/sh
# scripts/flaky.sh on a project of a few tests: one fails in its second run, one always, one never, and one is long.
#   flaky_test.sh SCRIPT GENERATOR
set -eu
flaky=$1
export CMAKE_GENERATOR="$2"  # CMake's default is make, which need not be installed
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
if(POLICY CMP0110)
  cmake_policy(SET CMP0110 NEW)
endif()
project(fake NONE)
enable_testing()
add_test(NAME good COMMAND sh -c "echo >>runs")
add_test(NAME "now and/then" COMMAND sh -c "echo oops; echo >>then; test $(wc -l <then) -ne 2")
add_test(NAME long COMMAND sh -c "touch long")
set_tests_properties(long PROPERTIES LABELS long)
if(BAD)
  add_test(NAME bad COMMAND sh -c "echo too bad; ps -A -o args= | grep \"burner [0-9]* \$PWD/flaky\"; exit 1")
endif()
END

fail() {
  echo "FAILED: $1"
  cat out
  exit 1
}
has() { grep -qxF -- "$1" out || fail "the output has no line '$1'"; }
run() {  # <expected exit code> <arguments>...
  expected=$1
  shift
  result=0
  DELAYQUEUE_BUILD="$folder/build" "$flaky" "$@" >out 2>&1 || result=$?
  [ $result = "$expected" ] || fail "flaky.sh $* ended with $result, not with $expected"
}

run 2 3
has "flaky.sh: $folder/build has no tests; run scripts/test.sh first"
run 2 many
has "flaky.sh: N is the number of runs of each test, from 1; it is 'many'"

cmake -S . -B build -DBAD=ON >/dev/null
kept=$(cd build && pwd)/flaky
loop="burner [0-9][0-9]* $kept"
run 1 4
has 'failed:'
has '  bad: 4 of 4'
has '  now and/then: 1 of 4'
has "    $kept/now_and_then.run2-busy.txt"
has "    $kept/bad.run3.txt"
[ "$(grep -c '^run . of 4' out)" = 4 ] || fail 'each run must have a line'
grep -qx oops "$kept/now_and_then.run2-busy.txt" || fail 'the output of a failed test must be kept'
! grep -q oops "$kept/bad.run3.txt" || fail 'the file of one test has the output of another'
grep -q "$loop" "$kept/bad.run2-busy.txt" || fail 'every second run must be beside a busy machine'
! grep -q "$loop" "$kept/bad.run3.txt" || fail 'every second run must be without a busy machine'
[ "$(wc -l <build/runs)" -eq 4 ] || fail 'each test must be run four times'
! [ -e build/long ] || fail 'long tests must be left out'

run 0 2 -R good
has 'no test failed'
! [ -e "$kept/bad.run3.txt" ] || fail 'what failed before must be forgotten'
run 2 1 -R no_such_test
echo 'all in order'
