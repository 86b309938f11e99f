#!/bin/sh
# Shows the library on a fresh machine: installs what is needed, builds, and runs the example of unpaid orders
# (examples/order_timeout.cc) on an embedded Redis server.
set -eu
cd "$(dirname "$0")/.."

echo "== 1/3 setting up"
scripts/setup.sh
echo "== 2/3 building the library and the example"
cmake --preset release
cmake --build --preset release --parallel "$(getconf _NPROCESSORS_ONLN)" --target example_order_timeout
echo "== 3/3 running build/release/bin/order_timeout"
exec build/release/bin/order_timeout embedded: examples/orders.jsonl
