#!/bin/sh
# docs/metrics.md lists the metrics that the library writes, and no others, each with its type; the alerts and the dashboard use
# no other metrics; and docs/metrics.md lists the alerts.
#
#   names_test.sh ROOT PAGE     PAGE: the program test/metrics/page.cc
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $1"
  cat "$work/difference"
  exit 1
}

# Compares two sorted lists.
same() {
  comm -3 "$2" "$3" >"$work/difference"
  [ -s "$2" ] || fail "$1: the list is empty"
  [ ! -s "$work/difference" ] || fail "$1 (left: only in the first, right: only in the second)"
}

"$2" >"$work/page"
sed -n 's/^# TYPE \([a-z_]*\) \([a-z]*\)$/\1 \2/p' "$work/page" | sort >"$work/written"
sed -n 's/^| `\(delayqueue_[a-z_]*\)` | \([a-z]*\) |.*/\1 \2/p' docs/metrics.md | sort >"$work/listed"
same 'metrics that are written, and that docs/metrics.md lists' "$work/written" "$work/listed"

# Each name in a sample belongs to a metric of the page: histograms have three names.
sed 's/ .*//' "$work/written" | sort >"$work/names"
sed -n 's/^\(.*\) histogram$/\1_bucket\n\1_count\n\1_sum/p' "$work/written" | sort - "$work/names" >"$work/usable"
for file in docs/metrics/alerts.yml docs/metrics/dashboard.json; do
  grep -o 'delayqueue_[a-z_]*' "$file" | sort -u >"$work/used"
  comm -23 "$work/used" "$work/usable" >"$work/difference"
  [ ! -s "$work/difference" ] || fail "$file uses metrics that there are not:"
done

sed -n 's/^ *- alert: \([A-Za-z]*\)$/\1/p' docs/metrics/alerts.yml | sort >"$work/alerts"
sed -n 's/^| `\(Delayqueue[A-Za-z]*\)` |.*/\1/p' docs/metrics.md | sort >"$work/explained"
same 'alerts, and those that docs/metrics.md explains' "$work/alerts" "$work/explained"
grep -o 'alertname: [A-Za-z]*' test/metrics/alerts_test.yml | sed 's/.* //' | sort -u >"$work/tested"
same 'alerts, and those that have tests' "$work/alerts" "$work/tested"
echo "$(wc -l <"$work/written") metrics, $(wc -l <"$work/alerts") alerts"
