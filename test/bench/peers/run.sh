#!/bin/bash
# Measures other libraries, one after the other, with the jobs of README.md. Prints one JSON object on stdout,
# {name: {...}}, and progress on stderr. A library that cannot be built here is skipped, with the reason.
#
#   run.sh [--quick] [--only NAME[,NAME...]]                                starts a Redis server
#   run.sh --socket PATH --private [--quick] [--only NAME[,NAME...]]        uses that Redis and EMPTIES it
#
# Names: go-delayqueue asynq bullmq redisson. All use the unix socket; --url and --port are accepted and ignored.
# GO_DELAYQUEUE_GOFLAGS replaces GOFLAGS while go-delayqueue is built.
# Everything is built in build/peers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$here/../../.." && pwd)/build/peers
all=(go-delayqueue asynq bullmq redisson)
if [ -x /usr/local/go/bin/go ]; then PATH=$PATH:/usr/local/go/bin; fi

fail() {
  echo "peers: $1" >&2
  exit 2
}

socket='' private=0 only=("${all[@]}") size=(--count 20000 --repeat 3 --seconds 10) waiting=200000 idle_for=10
while [ $# -gt 0 ]; do
  case $1 in
    --quick) size=(--count 4000 --repeat 1 --seconds 2) waiting=50000 idle_for=3 ;;
    --private) private=1 ;;
    --socket | --url | --port | --only)
      [ $# -ge 2 ] || fail "$1: expected a value"
      if [ "$1" = --socket ]; then socket=$(realpath -m "$2"); fi
      if [ "$1" = --only ]; then IFS=, read -r -a only <<<"$2"; fi
      shift
      ;;
    *) fail "$1: unknown option; see the comment at the top of $0" ;;
  esac
  shift
done
for name in "${only[@]}"; do
  [[ " ${all[*]} " == *" $name "* ]] || fail "--only: no peer '$name'; expected one of ${all[*]}"
done

# --- the server

for tool in redis-cli redis-benchmark; do
  command -v $tool >/dev/null || fail "$tool is not installed (Debian: redis-tools)"
done
redis() { redis-cli -s "$socket" "$@"; }

server='' folder=''
end() {
  if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi
  if [ -n "$folder" ]; then rm -rf "$folder"; fi
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() {
  folder=$(mktemp -d "${TMPDIR:-/tmp}/peers-XXXXXX")
  socket=$folder/redis
  redis-server --port 0 --unixsocket "$socket" --unixsocketperm 700 --dir "$folder" --save '' --appendonly no \
    >"$folder/log" &
  server=$!
  local i
  for ((i = 0; i < 100; i++)); do
    if redis PING >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail 'cannot start redis-server: it does not answer within 10 s'
}

if [ -z "$socket" ]; then
  start_server
elif [ $private = 0 ]; then
  fail "--socket $socket: this Redis would be emptied; add --private if it has no other users"
elif ! redis PING >/dev/null; then
  fail "--socket $socket: no Redis answers there"
fi

# --- building

# Each build_* function makes $build/<name> and sets `run` to its command line, or sets `why` and returns 1. Sources are
# copied if a tool writes files next to them.
run=() why=''

tool() {
  command -v "$1" >/dev/null && return
  why="$1 is not installed"
  return 1
}

# attempt REASON COMMAND...: runs the command with its output in the log, since that may name private hosts.
attempt() {
  local reason=$1 log=$build/$name.log
  shift
  if "$@" >>"$log" 2>&1; then return; fi
  why="$reason (see build/peers/$name.log)"
  return 1
}

build_go() {
  tool go || return 1
  local flags=${GOFLAGS-}
  if [ "$name" = go-delayqueue ]; then flags=${GO_DELAYQUEUE_GOFLAGS-$flags}; fi
  cd "$here/$name"
  attempt 'its pinned modules cannot be downloaded here' env GOFLAGS="$flags" go mod download || return 1
  attempt 'its driver does not build' \
    env GOFLAGS="$flags" CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$build/$name" . || return 1
  run=("$build/$name")
}

build_node() {
  tool node && tool npm || return 1
  local to=$build/bullmq
  mkdir -p "$to"
  cp "$here"/bullmq/{main.js,package.json,package-lock.json,.npmrc} "$to"
  cd "$to"
  # Not npm ci, which requires a lock file with the packages of other platforms.
  attempt 'its pinned packages cannot be downloaded here' npm install --no-save --no-audit --no-fund || return 1
  run=(node "$to/main.js")
}

build_java() {
  tool java && tool mvn || return 1
  local to=$build/redisson
  mkdir -p "$to"
  rm -rf "$to/src"
  cp -R "$here"/redisson/{pom.xml,src} "$to"
  cd "$to"
  attempt 'its driver does not build, or the pinned packages cannot be downloaded here' \
    mvn -q -B package dependency:copy-dependencies -DincludeScope=runtime || return 1
  run=(java -cp "$to/target/driver.jar:$to/target/dependency/*" Driver)
}

build_peer() {
  mkdir -p "$build"
  rm -f "$build/$1.log"
  name=$1
  run=() why=''
  case $1 in
    bullmq) build_node ;;
    redisson) build_java ;;
    *) build_go ;;
  esac
}

# --- running

# Requests a second while one worker is idle, without the commands that scripts call.
idle_requests() {
  redis FLUSHALL >/dev/null
  "${run[@]}" --socket "$socket" --idle >"$build/idle" 2>/dev/null &
  local worker=$! i requests
  for ((i = 0; i < 100; i++)); do
    if [ -s "$build/idle" ]; then break; fi
    sleep 0.1
  done
  sleep 2
  requests=$(timeout "$idle_for" redis-cli -s "$socket" MONITOR | grep -c '^[0-9.]* \[[0-9]* [^l]' || true)
  kill "$worker" 2>/dev/null || true
  wait "$worker" 2>/dev/null || true
  awk "BEGIN { printf \"%.2f\", $requests / $idle_for }"
}

# The current speed of the machine, which depends on the load of its host.
sets_per_s() {
  redis-benchmark -s "$socket" -t set -P 50 -n 500000 --csv | sed -n 's/^"SET","\([0-9]*\).*/\1/p'
}

measure() {
  local figures bytes before
  before=$(sets_per_s)
  redis FLUSHALL >/dev/null
  bytes=$(timeout 120 "${run[@]}" --socket "$socket" --bytes 64 --memory $waiting) || return 1
  redis FLUSHALL >/dev/null
  figures=$(timeout 600 "${run[@]}" --socket "$socket" --bytes 64 "${size[@]}") || return 1
  redis FLUSHALL >/dev/null
  printf '%s,"memory":{"bytes_per_message":%s},"machine":{"sets_per_s":%d},"idle":{"requests_per_s":%s}}' \
    "${figures%\}}" "$bytes" $(((before + $(sets_per_s)) / 2)) "$(idle_requests)"
}

result='' name=''
for peer in "${only[@]}"; do
  echo "== $peer: building" >&2
  if ! build_peer "$peer"; then
    echo "== $peer: skipped: $why" >&2
    object="{\"skipped\":\"$why\"}"
  else
    echo "== $peer: measuring" >&2
    start=$SECONDS
    if object=$(measure); then
      echo "== $peer: done in $((SECONDS - start)) s" >&2
    else
      echo "== $peer: its driver failed" >&2
      object='{"failed":"its driver failed; see its output on stderr"}'
    fi
  fi
  result+=${result:+,}$'\n'"  \"$peer\": $object"
done
redis FLUSHALL >/dev/null
printf '{%s\n}\n' "$result"
