#!/bin/bash
# Runs the fuzz targets of test/fuzz with libFuzzer, starting from their seeds. Needs clang++.
#
#   scripts/fuzz.sh [seconds for each target = 15] [target...]
#
# Prints a line for each target: inputs run, seconds, covered edges of code, findings. Fails if there is a finding; its
# input is kept in build/fuzz/findings and can be repeated with build/fuzz/bin/<target>_fuzz <file>. New inputs that
# cover more code are kept in build/fuzz/corpus for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-15}
targets=("${@:2}")
if [ ${#targets[@]} = 0 ]; then targets=(url reply event cron serve); fi
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: $0 [seconds for each target] [target...]" >&2
  exit 2
fi

build=build/fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(getconf _NPROCESSORS_ONLN)" --target "${targets[@]/%/_fuzz}" >&2

last() { grep -oE "$1 *[0-9]+" "$log" | tail -1 | grep -oE '[0-9]+$' || echo '?'; }

found=0
printf '%-8s %12s %8s %6s %9s\n' target runs seconds edges findings
for target in "${targets[@]}"; do
  mkdir -p "$build/findings" "$build/corpus/$target"
  log=$build/$target.log
  start=$SECONDS
  if "$build/bin/${target}_fuzz" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=10 -max_len=4096 \
    -print_final_stats=1 -dict="test/fuzz/$target.dict" -artifact_prefix="$build/findings/$target-" \
    "$build/corpus/$target" "test/fuzz/corpus/$target" >"$log" 2>&1; then findings=0; else findings=1; fi
  printf '%-8s %12s %8s %6s %9s\n' "$target" "$(last number_of_executed_units:)" $((SECONDS - start)) \
    "$(last cov:)" $findings
  if [ $findings = 1 ]; then
    found=1
    grep -vE '^#[0-9]+' "$log" | tail -40 >&2
  fi
done
exit $found
