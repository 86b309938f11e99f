#!/bin/sh
# promtool accepts the pages of the library and of dqctl, and the rules for alerts, which fire when they should.
#
#   promtool_test.sh PROMTOOL ROOT PAGE [DQCTL]     PAGE: the program test/metrics/page.cc
# Exit code 77: promtool is not installed.
set -eu
promtool=$1 root=$2 page=$3 dqctl=${4-}
if ! command -v "$promtool" >/dev/null; then
  echo 'skipped: promtool is not installed (scripts/setup.sh --check installs it)'
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# promtool reports samples that it cannot parse, and names against the conventions, by its exit code.
"$page" >"$work/page"
"$promtool" check metrics <"$work/page"
if echo 'delayqueue_wrong{queue="x} 1' | "$promtool" check metrics 2>/dev/null; then
  echo 'FAILED: promtool accepts a page that is no page'
  exit 1
fi
if [ -n "$dqctl" ]; then
  DELAYQUEUE_URI="embedded:$work/redis" "$dqctl" send orders x
  DELAYQUEUE_URI="embedded:$work/redis" "$dqctl" metrics >"$work/page"
  grep -q '^delayqueue_messages{queue="orders",state="ready"} 1$' "$work/page"
  "$promtool" check metrics <"$work/page"
fi
"$promtool" check rules "$root/docs/metrics/alerts.yml"
# The queries of the dashboard, as rules. A text of JSON is one of YAML, too.
{
  printf 'groups:\n- name: dashboard\n  rules:\n'
  awk '/"expr": / {
    sub(/^ *"expr": /, ""); sub(/,$/, ""); gsub(/[$]__rate_interval/, "5m")
    printf "  - record: query%d\n    expr: %s\n", ++n, $0
  }' "$root/docs/metrics/dashboard.json"
} >"$work/dashboard.yml"
"$promtool" check rules "$work/dashboard.yml" >"$work/dashboard"
grep 'SUCCESS: [1-9]' "$work/dashboard"
"$promtool" test rules "$root/test/metrics/alerts_test.yml"
