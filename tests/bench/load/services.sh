# Starts and stops services for the scripts beside it. Sourced, from the root of
# the tree; the programs are built.
# shellcheck shell=bash

logs=$(mktemp -d "${TMPDIR:-/tmp}/bole-load.XXXXXX")
declare -A pids=()

# start NAME COMMAND...: runs a service until it listens.
start() {
  local name=$1 log=$logs/$1.log
  shift
  "$@" >"$log" 2>&1 </dev/null &
  pids[$name]=$!
  until grep -qs '^listening on ' "$log"; do
    kill -0 "${pids[$name]}" 2>/dev/null ||
      { echo "$name ended:" >&2; cat "$log" >&2; return 1; }
    sleep 0.05
  done
}

# said NAME TEXT: what a service printed after TEXT.
said() { sed -n "s/^$2 //p" "$logs/$1.log"; }

# connect: BOLE_SERVER and metrics_url of the scheduler, once it serves.
connect() {
  BOLE_SERVER=$(said scheduler 'listening on')
  export BOLE_SERVER
  metrics_url=http://127.0.0.1:$(said scheduler 'metrics on port')/metrics
  export metrics_url
  bazel-bin/clients/cli/bole health --wait 60 >/dev/null
}

# The scheduler first: it lets requests finish, and the worker has to be there.
stop_services() {
  local status=$? name
  trap - EXIT
  for name in scheduler worker; do
    [[ ${pids[$name]:-} ]] || continue
    kill -TERM "${pids[$name]}" 2>/dev/null || true
    wait "${pids[$name]}" || status=$((status ? status : 1))
  done
  ((status == 0)) || find "$logs" -name '*.log' -exec tail -n 20 {} + >&2
  rm -rf "$logs"
  exit "$status"
}
trap stop_services EXIT
trap 'exit 130' INT TERM
