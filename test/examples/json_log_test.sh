#!/bin/sh
# Every line of the example json_log is a JSON object, and it logs what happened to its four messages:
#   json_log_test.sh EXAMPLE
set -eu
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
"$1" embedded: >"$lines"
cat "$lines"

# An object of strings and numbers, without objects in it.
string='"([^"\\[:cntrl:]]|\\["\\]|\\u[0-9a-f]{4})*"'
number='[0-9]+(\.[0-9]+)?'
member="$string:($string|$number)"
if grep -Evn "^\{$member(,$member)*\}$" "$lines"; then
  echo 'FAILED: not JSON'
  exit 1
fi

has() {
  grep -Eq "$1" "$lines" || { echo "FAILED: no line has $1"; exit 1; }
}
id='"message_id":"[0-9a-f-]{36}"'
handled="\"event\":\"handled\",\"queue\":\"json-log\",$id"
took="\"duration_ms\":$number"
has "$handled,\"attempt\":1,$took,\"verdict\":\"ack\"\}"
has "$handled,\"attempt\":1,$took,\"verdict\":\"nack\",\"reason\":\"stock service:\\\\u0009\\\\\"timeout\\\\\"\"\}"
has "$handled,\"attempt\":1,$took,\"verdict\":\"reject\",\"reason\":\"no such order\"\}"
has "$handled,\"attempt\":1,$took,\"verdict\":\"nack\",\"reason\":\"too slow\"\}"
has "$handled,\"attempt\":2,$took,\"verdict\":\"ack\"\}"
has "\"event\":\"log\",\"severity\":\"warning\",\"text\":\"[^\"]*processing_timeout[^\"]*\",\"queue\":\"json-log\",\"consumer\":\"[0-9a-f-]{36}\",$id\}"
