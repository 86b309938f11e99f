#!/bin/sh
# scripts/ctest_patiently on a project of a few tests, with what fails as asked for.
#   ctest_patiently_test.sh SCRIPT GENERATOR
set -eu
patiently=$1
export CMAKE_GENERATOR="$2"  # CMake's default is make, which need not be installed
unset DELAYQUEUE_TEST_NOTES  # of the run that this test is a part of
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
add_test(NAME good COMMAND sh -c "echo 'skipped: a part of it, since the user is not root'")
add_test(NAME "fails at first" COMMAND sh -c "test -e once && exit 0; touch once; exit 1")
add_test(NAME "fails twice" COMMAND sh -c "test -e b && exit 0; test -e a && touch b; touch a; exit 1")
add_test(NAME no_gear COMMAND sh -c "echo 'skipped: there is no gear'; exit 77")
add_test(NAME "gear: one more" COMMAND sh -c "echo 'skipped: there is no gear'; exit 77")
add_test(NAME silent COMMAND sh -c "exit 77")
set_tests_properties(no_gear "gear: one more" silent PROPERTIES SKIP_RETURN_CODE 77)
if(BAD)
  add_test(NAME bad COMMAND sh -c "echo bad >>bad; exit 1")
endif()
END

fail() {
  echo "FAILED: $1"
  cat out
  exit 1
}
has() { grep -qxF -- "$1" out || fail "the output has no line '$1'"; }
last() { [ "$(tail -n 1 out)" = "$1" ] || fail "the last line is not '$1'"; }

run() {  # [arguments for cmake]
  rm -rf build notes
  mkdir notes
  cmake -S . -B build "$@" >/dev/null
  result=0
  (cd build && DELAYQUEUE_TEST_NOTES=../notes "$patiently" . --parallel 3) >out 2>&1 || result=$?
}

run
[ $result = 0 ] || fail 'tests that pass when run again must not fail it'
has 'flaky:'
has '  fails at first'
has '  fails twice'
has 'skipped: 4'
has '  good: a part of it, since the user is not root'
has '  there is no gear:'
has '    no_gear'
has '    gear: one more'
has '  silent: it gives no reason'
last '67% tests passed, 2 tests failed out of 6; they passed when run again'
[ "$(sort notes/flaky)" = '.: fails at first
.: fails twice' ] || fail 'the notes have other flaky tests'

run -DBAD=ON
[ $result != 0 ] || fail 'a test that fails three times must fail it'
[ "$(wc -l <build/bad)" -eq 3 ] || fail 'a test that fails must be run three times'
has '  fails at first'
! grep -qx '  bad' out || fail 'a test that fails three times is not flaky'
last '57% tests passed, 3 tests failed out of 7'

# Nothing fails: nothing is run again, and what failed long ago is forgotten.
(cd build && touch once a b && cmake -DBAD=OFF . >/dev/null && "$patiently" .) >out 2>&1 || fail 'all is well'
! grep -q 'flaky\|attempt' out || fail 'nothing was run again'
last '100% tests passed, 0 tests failed out of 6'

# No test at all is an error of the caller, not of a test.
result=0
(cd build && "$patiently" . -R no_such_test --no-tests=error) >out 2>&1 || result=$?
[ $result != 0 ] || fail 'no test at all must fail it'
! grep -q attempt out || fail 'nothing is to be run again'
echo 'all in order'
