#!/bin/sh
# Measures the library on a Redis of its own: progress on stderr, one JSON object on stdout. What each figure is stands
# in test/bench/README.md.
#
#   scripts/bench.sh [--quick] [--only PART[,PART...]] [--peers]
#
#   --quick   within 50 s; without it some minutes, and each figure is the median of several repetitions
#   --only    these parts alone: throughput sends worker end_to_end lateness wake idle herd million
#   --peers   also the same jobs through other libraries, as far as their toolchains are installed
#
# DELAYQUEUE_REDIS_SERVER names the server to run; else it is redis-server, or valkey-server, on PATH.
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
      [ $# -ge 2 ] || { echo "bench.sh: --only: expected names of parts behind it; -h tells them" >&2; exit 2; }
      only=$2
      shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "scripts/${0##*/}"; exit 0 ;;
    *) echo "bench.sh: $1: unknown; -h tells what there is" >&2; exit 2 ;;
  esac
  shift
done
[ -z "$peers" ] || [ -x "$peers" ] || { echo "bench.sh: --peers: there is no $peers" >&2; exit 2; }

scripts/setup.sh >&2
cmake --preset release >&2
cmake --build --preset release --parallel "$(getconf _NPROCESSORS_ONLN)" --target delayqueue_bench >&2
exec build/release/bin/delayqueue_bench ${quick:+--quick} ${only:+--only "$only"} ${peers:+--peers "$peers"}
