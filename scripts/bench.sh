#!/bin/sh
# The benchmark: starts a Redis server and measures the library on it. Prints progress on stderr and one JSON object on
# stdout. test/bench/README.md describes the figures. If a part fails, the others are measured, and the exit code is 1.
#
#   scripts/bench.sh [--quick] [--only PART[,PART...]] [--peers]
#
#   --quick   takes at most 60 s; without it, each figure is the median of several repetitions, which takes about ten
#             minutes
#   --only    runs only these parts:
#               in all runs        throughput sends receives end_to_end payloads big_sends batches links lateness load
#                                  wake idle herd million
#               not with --quick   crowd burst sleepers many_queues deliveries durability transport processes
#               only if named      border headers limits sharing unique (half a minute each) registry partitions (some
#                                  minutes) rss (ten minutes)
#   --peers   also measures other libraries whose toolchains are installed
#
# DELAYQUEUE_REDIS_SERVER is the server to start; by default redis-server or valkey-server on PATH.
set -eu
cd "$(dirname "$0")/.."

peers=
only=
quick=
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=1 ;;
    --peers) peers=$PWD/test/bench/peers/run.sh ;;
    --only)
      [ $# -ge 2 ] || { echo "bench.sh: --only: expected names of parts after it; -h lists them" >&2; exit 2; }
      only=$2
      shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "scripts/${0##*/}"; exit 0 ;;
    *) echo "bench.sh: $1: unknown option; -h lists the options" >&2; exit 2 ;;
  esac
  shift
done
[ -z "$peers" ] || [ -x "$peers" ] || { echo "bench.sh: --peers: the program $peers does not exist" >&2; exit 2; }

scripts/setup.sh >&2
cmake --preset release >&2
cmake --build --preset release --parallel "$(getconf _NPROCESSORS_ONLN)" --target delayqueue_bench >&2
exec build/release/bin/delayqueue_bench ${quick:+--quick} ${only:+--only "$only"} ${peers:+--peers "$peers"}
