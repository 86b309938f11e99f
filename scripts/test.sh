#!/bin/sh
# Sets up, builds and runs the tests.   test.sh [release|debug|asan|tsan] [arguments for ctest]
# At its end it names those that this machine cannot run, and why.
set -eu
cd "$(dirname "$0")/.."

preset=release
case "${1-}" in
  '' | -*) ;;
  *) preset=$1; shift ;;
esac

scripts/setup.sh
jobs=$(getconf _NPROCESSORS_ONLN)
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$jobs"
scripts/ctest_patiently "build/$preset" --preset "$preset" --parallel $((jobs + 1)) "$@"  # tests wait a lot
