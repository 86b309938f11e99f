#!/bin/sh
# The chaos test: kills, freezes and disconnects producers, workers and servers, and checks a ledger of all messages.
# Prints one line of counts and lines of recovery times. Fails if a message is lost or a rule is broken. See
# test/chaos/README.md.
#
#   scripts/chaos.sh --seconds N --seed S --topology single|sentinel|cluster|partitions
#                    [--durability none|replicas] [--rate N] [--calm] [--keep] [--verbose]
#                    [--old-program PROGRAM]
#
# --old-program: one worker and one producer of the topology partitions run this program, a `chaos` of a version before
# partitions. Without it, processes of this version stand for them.
# PRESET is the build (release by default), DELAYQUEUE_REDIS_SERVER the server.
set -eu
cd "$(dirname "$0")/.."

preset=${PRESET:-release}
scripts/setup.sh >&2
cmake --preset "$preset" >&2
cmake --build --preset "$preset" --parallel "$(getconf _NPROCESSORS_ONLN)" --target chaos >&2
exec "build/$preset/bin/chaos" "$@"
