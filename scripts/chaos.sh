#!/bin/sh
# Producers, workers and servers that are killed, frozen and cut off, and a ledger of what came of it: one line of counts,
# lines of recovery times; fails if anything is lost or any rule is broken. See test/chaos/README.md.
#
#   scripts/chaos.sh --seconds N --seed S --topology single|sentinel|cluster
#                    [--durability none|replicas] [--rate N] [--calm] [--keep] [--verbose]
#
# PRESET (release) says which build; DELAYQUEUE_REDIS_SERVER which server.
set -eu
cd "$(dirname "$0")/.."

preset=${PRESET:-release}
scripts/setup.sh >&2
cmake --preset "$preset" >&2
cmake --build --preset "$preset" --parallel "$(getconf _NPROCESSORS_ONLN)" --target chaos >&2
exec "build/$preset/bin/chaos" "$@"
