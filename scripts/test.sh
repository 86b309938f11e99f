#!/bin/sh
# Installs what is needed, builds, and runs the tests.
#
#   scripts/test.sh [--all] [release|debug|asan|tsan] [arguments for ctest]
#
# Without --all it leaves out the tests that take long (chaos, millions of messages, Sentinel, wake-ups, hostile contents
# in every script and command, packages, the benchmark), does not build the programs that only they need, and runs
# the tests of random cases with fewer of them. At the end it lists the skipped tests with their reasons.
set -eu
cd "$(dirname "$0")/.."

all=
if [ "${1-}" = --all ]; then all=yes; shift; fi
preset=release
case "${1-}" in
  '' | -*) ;;
  *) preset=$1; shift ;;
esac

scripts/setup.sh
jobs=$(getconf _NPROCESSORS_ONLN)
cmake --preset "$preset"
target=all
[ -n "$all" ] || target=short_tests
cmake --build --preset "$preset" --parallel "$jobs" --target "$target"
if [ -z "$all" ]; then
  export DELAYQUEUE_SEEDS="${DELAYQUEUE_SEEDS:-60}"
  set -- -LE long "$@"
fi
# Tests wait for two thirds of their time, under sanitizers for half of it.
case "$preset" in asan | tsan) tests=$((jobs * 2)) ;; *) tests=$((jobs * 3)) ;; esac
scripts/ctest_patiently "build/$preset" --preset "$preset" --parallel "$tests" "$@"
if [ -z "$all" ]; then
  printf 'left out: %s long tests, which scripts/test.sh --all runs\n' \
    "$(ctest --preset "$preset" -N -L long | sed -n 's/^Total Tests: //p')"
fi
