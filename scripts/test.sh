#!/bin/sh
# Sets up, builds and runs every test.   test.sh [release|debug|asan|tsan] [arguments for ctest]
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
ctest --preset "$preset" --parallel $((jobs + 1)) "$@"  # tests wait a lot
