#!/bin/bash
# Measures other libraries, one after the other, with the jobs of README.md. Prints one JSON object on stdout,
# {name: {...}}, and progress on stderr. A library that cannot be built here is skipped, with the reason.
#
#   run.sh [--quick] [--only NAME[,NAME...]]                                starts a Redis server
#   run.sh --socket PATH --private [--quick] [--only NAME[,NAME...]]        uses that Redis and EMPTIES it
#
# The numbers of scripts/bench.sh, which passes its own: --count N messages for each rate, --repeat N times each figure,
# --late N scheduled messages, --waiting N messages whose memory is measured, --idle N seconds with an idle worker.
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

socket='' private=0 only=("${all[@]}") count=50000 repeat=3 late=10000 waiting=200000 idle_for=10
while [ $# -gt 0 ]; do
  case $1 in
    --quick) count=15000 repeat=1 late=2000 waiting=50000 idle_for=2 ;;
    --private) private=1 ;;
    --count | --repeat | --late | --waiting | --idle)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "$1: expected a number of at least 1"
      case $1 in
        --count) count=$2 ;;
        --repeat) repeat=$2 ;;
        --late) late=$2 ;;
        --waiting) waiting=$2 ;;
        --idle) idle_for=$2 ;;
      esac
      shift
      ;;
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
[ $((late % 1000)) = 0 ] || fail "--late: $late messages; expected whole thousands, because one is due each millisecond"
size=(--count "$count" --repeat "$repeat")
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
idle_once() {
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
  awk "BEGIN { printf \"%.2f\n\", $requests / $idle_for }"
}

# The median of several measurements.
idle_requests() {
  local i
  for ((i = 0; i < repeat; i++)); do idle_once; done | sort -n | sed -n "$(((repeat + 1) / 2))p"
}

# The cores that this script may use, as in "0,1" or "0-3", and the first two of them.
cores='' first='' second=''
if command -v taskset >/dev/null; then
  cores=$(taskset -pc $$ | sed 's/.*: //')
  if [[ $cores =~ ^([0-9]+)(([,-])([0-9]+))? ]]; then
    first=${BASH_REMATCH[1]}
    if [ "${BASH_REMATCH[3]}" = , ]; then second=${BASH_REMATCH[4]}; fi
    if [ "${BASH_REMATCH[3]}" = - ]; then second=$((first + 1)); fi
  fi
fi

# Sends by one thread, with Redis on the first core and the driver on the given one. Prints the rate.
placed_sends() {
  local server_pid rate status=0
  server_pid=$(redis INFO server | tr -d '\r' | sed -n 's/^process_id://p')
  taskset -a -pc "$first" "$server_pid" >/dev/null || return 1
  rate=$(timeout 600 taskset -c "$1" "${run[@]}" --socket "$socket" --bytes 64 "${size[@]}" --one-thread) || status=1
  taskset -a -pc "$cores" "$server_pid" >/dev/null || status=1
  redis FLUSHALL >/dev/null
  [ $status = 0 ] && echo "$rate"
}

# The rates on one core and on two cores, as the members of a JSON object.
all_placed_sends() {
  local rate
  if [ -z "$first" ]; then
    echo '  left out: sends on known cores (taskset is not installed; Debian: util-linux)' >&2
  elif ! rate=$(placed_sends "$first"); then
    echo '  left out: sends on known cores (the driver failed, or the server cannot be pinned)' >&2
  elif printf '"one_core":%s' "$rate" && [ -z "$second" ]; then
    echo '  left out: sends on two cores (this process may use one core only)' >&2
  elif ! rate=$(placed_sends "$second"); then
    echo '  left out: sends on two cores (the driver failed, or the server cannot be pinned)' >&2
  else
    printf ',"two_cores":%s' "$rate"
  fi
}

# The current speed of the machine, which depends on the load of its host.
sets_per_s() {
  redis-benchmark -s "$socket" -t set -P 50 -n 500000 --csv | sed -n 's/^"SET","\([0-9]*\).*/\1/p'
}

measure() {
  local figures bytes before placed
  before=$(sets_per_s)
  redis FLUSHALL >/dev/null
  bytes=$(timeout 120 "${run[@]}" --socket "$socket" --bytes 64 --memory $waiting) || return 1
  redis FLUSHALL >/dev/null
  figures=$(timeout 1800 "${run[@]}" --socket "$socket" --bytes 64 "${size[@]}" --seconds $((late / 1000))) || return 1
  redis FLUSHALL >/dev/null
  placed=$(all_placed_sends)
  printf '%s,"send_one_thread":{%s},"memory":{"bytes_per_message":%s},"machine":{"sets_per_s":%d},' \
    "${figures%\}}" "$placed" "$bytes" $(((before + $(sets_per_s)) / 2))
  printf '"idle":{"requests_per_s":%s},"count":%d,"repeat":%d}' "$(idle_requests)" "$count" "$repeat"
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
