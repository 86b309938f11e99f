#!/bin/bash
# Checks the words of all sources, the public headers, and the format, and lints lib/. Needs clang 14; other versions may report other things.
set -euo pipefail
cd "$(dirname "$0")/.."

tool() { command -v "$1-14" || command -v "$1"; }

echo "== words"
scripts/check_words .

echo "== headers"
scripts/check_headers .

echo "== format"
find . -path ./build -prune -o \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 "$(tool clang-format)" --dry-run -Werror

echo "== width"
find . -path ./build -prune -o \( -name '*.h' -o -name '*.cc' -o -name '*.lua' \) -print0 |
  xargs -0 awk 'length > 120 { print FILENAME ":" FNR ": longer than 120 columns"; bad = 1 } END { exit bad }'

echo "== lint"
# The library in batches, as for the sanitizers: clang-tidy then reads each header a few times, and not once for each file.
# A batch includes its files, which clang-tidy must take for files of ours, and not for a mistake.
if grep -rnE '^ *#include .*\.cc[">]' lib --include='*.h' --include='*.cc'; then exit 1; fi
# From scratch: with another compiler than before, CMake forgets the options below, and nothing would be linted.
rm -rf build/check
cmake -S . -B build/check -G Ninja -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_CXX_COMPILER="$(tool clang++)" \
  -DDELAYQUEUE_SANITIZE=address -DDELAYQUEUE_UNITY_BUILD=ON -DDELAYQUEUE_BUILD_TOOLS=OFF -DDELAYQUEUE_BUILD_TESTS=OFF \
  -DDELAYQUEUE_BUILD_EXAMPLES=OFF >/dev/null
cmake --build build/check --target delayqueue_scripts >/dev/null  # store/script_calls.h is made from them
"$(tool run-clang-tidy)" -quiet -p build/check -j "$(getconf _NPROCESSORS_ONLN)" -checks=-bugprone-suspicious-include \
  -header-filter='/lib/.*\.(h|cc)$' "/delayqueue_objects.dir/Unity/"
