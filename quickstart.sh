#!/usr/bin/env bash
# Builds Bole, starts its two services, and answers one question with them.
set -euo pipefail

usage() {
  cat <<'EOT'
usage: ./quickstart.sh [--model DIR] [--ranks N] [--bundle DIR] [PROMPT]
       ./quickstart.sh [--model DIR] [--ranks N] [--bundle DIR] --serve

Installs the packages that are missing, builds Bole, starts a worker and a
scheduler on free ports of this machine, streams the model's answer to PROMPT,
says what was drafted for it and why, and stops both. The worker uses a GPU if
there is one.

  --model DIR  a Qwen3.5 checkpoint (config.json, tokenizer.json, safetensors);
               by default models/demo, 12M parameters, which is part of the
               project
  --ranks N    cut the model into N parts, as bole-worker --ranks does: on the
               CPU, where there is no GPU
  --serve      answer nothing, but keep both running until Ctrl-C. The scheduler
               listens where the client looks for it, port 8400, unless that is
               taken. The first time with a model, what its rounds cost on this
               machine is measured, for 20 seconds or so, and kept under
               ${XDG_CACHE_HOME:-~/.cache}/bole
  --bundle DIR the programs of DIR/bin with the libraries of DIR/lib, as
               deploy/bundle.sh packs them, on a machine that builds nothing

BAZEL names the command to run instead of "bazel", options included.
EOT
}

here=$(cd "$(dirname "$0")" && pwd)
model=$here/models/demo
prompt='Write a python function to find the maximum of two numbers.'
serve=false
bundle=
ranks=1
while (($# > 0)); do
  case $1 in
    --model)
      (($# > 1)) || { usage >&2; exit 2; }
      [[ -d $2 ]] || { echo "--model: there is no folder $2" >&2; exit 2; }
      model=$(cd "$2" && pwd)
      shift
      ;;
    --ranks)
      (($# > 1)) || { usage >&2; exit 2; }
      [[ $2 =~ ^[1-9][0-9]*$ ]] ||
        { echo "--ranks: \"$2\" is not a number of 1 or more" >&2; exit 2; }
      ranks=$2
      shift
      ;;
    --bundle)
      (($# > 1)) || { usage >&2; exit 2; }
      [[ -x $2/bin/bole-worker ]] ||
        { echo "--bundle: there is no program $2/bin/bole-worker" >&2; exit 2; }
      bundle=$(cd "$2" && pwd)
      shift
      ;;
    --serve) serve=true ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
(($# <= 1)) || { usage >&2; exit 2; }
prompt=${1:-$prompt}

cd "$here"
bole='bazel-bin/clients/cli/bole'
bole_worker='bazel-bin/worker_service/bole-worker'
bole_scheduler='bazel-bin/scheduler_service/bole-scheduler'
bole_calibrate='bazel-bin/worker_service/calibration/bole-calibrate'
if [[ $bundle ]]; then
  bole=$bundle/bin/bole
  bole_worker=$bundle/bin/bole-worker
  bole_scheduler=$bundle/bin/bole-scheduler
  bole_calibrate=$bundle/bin/bole-calibrate
  export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
logs=$(mktemp -d "${TMPDIR:-/tmp}/bole.XXXXXX")
declare -A pids=()

build() {
  deploy/install_packages.sh
  local bazel options=(--ui_event_filters=-info --show_result=0)
  read -ra bazel <<<"${BAZEL:-bazel}"
  [[ -x $bole ]] || echo "building; the first time takes some minutes" >&2
  [[ -t 2 ]] || options+=(--noshow_progress)
  "${bazel[@]}" build "${options[@]}" //clients/cli:bole \
    //scheduler_service:bole-scheduler //worker_service:bole-worker \
    //worker_service/calibration:bole-calibrate //worker_service/eval:bole-eval
}

# start NAME COMMAND...: runs a service until it listens. It has a session of its
# own, so that Ctrl-C reaches this script and not the service.
start() {
  local name=$1 log=$logs/$1.log
  shift
  rm -f "$log"  # Of one before.
  setsid "$@" >"$log" 2>&1 </dev/null &
  pids[$name]=$!
  until grep -qs '^listening on ' "$log"; do
    kill -0 "${pids[$name]}" 2>/dev/null || return 1
    sleep 0.05
  done
}

# said NAME TEXT: what a service printed after TEXT.
said() { sed -n "s/^$2 //p" "$logs/$1.log"; }

# The scheduler first: it lets requests finish, and the worker has to be there.
stop() {
  local status=$? name
  trap - EXIT
  trap '' INT TERM
  for name in scheduler worker; do
    [[ ${pids[$name]:-} ]] || continue
    kill -TERM "${pids[$name]}" 2>/dev/null || true
    wait "${pids[$name]}" || status=$((status ? status : 1))
  done
  if ((status != 0 && status != 130)); then
    find "$logs" -name '*.log' -exec tail -n 20 {} + >&2
  fi
  rm -rf "$logs"
  exit "$status"
}

# cost_table: where the table of costs is kept that was measured with these files.
# The worker itself refuses one of another device or build.
cost_table() {
  local key parts=
  ((ranks == 1)) || parts=-$ranks-ranks
  key=$(
    cd "$model"
    shopt -s nullglob
    files=(config.json tokenizer.json *.safetensors.index.json)
    { cat "${files[@]}" && stat -Lc '%n %s' ./*.safetensors; } 2>/dev/null |
      sha256sum
  ) || true
  echo "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/bole/costs-${key:0:16}$parts.json"
}

# With the table, if there is one and the worker takes it.
start_worker() {
  local command=("$bole_worker" --model "$model" --listen 127.0.0.1:0
    --metrics-listen 127.0.0.1:0 --ranks "$ranks")
  if [[ -s $table ]]; then
    if start worker "${command[@]}" --cost-table "$table"; then return; fi
    # Anything else that is wrong is wrong without it, too.
    grep -F -- "$table" "$logs/worker.log" >&2 || true
    rm -f "$table"
  fi
  start worker "${command[@]}"
}

# Whatever goes wrong here, it works without.
calibrate() {
  if ! $serve || [[ -s $table || ! -x $bole_calibrate ]]; then return; fi
  echo "measuring what rounds cost with this model, for 20 s or so" >&2
  mkdir -p "$(dirname "$table")" &&
    "$bole_calibrate" --worker "$(said worker 'listening on')" --coarse \
      --max-seconds 20 --out "$table" >"$logs/calibrate.out" ||
    echo "going on without a table of costs" >&2
}

port_is_free() { ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start_services() {
  local listen=127.0.0.1:0
  if $serve && port_is_free 8400; then listen=127.0.0.1:8400; fi
  table=$(cost_table)
  start_worker
  # What it has to say of the checkpoint.
  grep '^bole-worker: ' "$logs/worker.log" >&2 || true
  calibrate
  start_scheduler --listen "$listen"
}

start_scheduler() {
  start scheduler "$bole_scheduler" --model "$model" \
    --worker "$(said worker 'listening on')" --metrics-listen 127.0.0.1:0 "$@"
  BOLE_SERVER=$(said scheduler 'listening on')
  export BOLE_SERVER
  "$bole" health --wait 60 >"$logs/health.log" 2>&1
}

# scrape: the scheduler's numbers, into a file.
scrape() {
  local connection
  exec {connection}<>"/dev/tcp/127.0.0.1/$(said scheduler 'metrics on port')"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$connection"
  cat <&"$connection" >"$logs/metrics"
  exec {connection}>&-
}

# total SERIES [LABEL]: the sum of the scraped numbers whose series begin so, of
# those that have the label if one is given.
total() {
  awk -v series="$1" -v label="${2:-}" '
    index($0, series) == 1 && (label == "" || index($0, label)) { sum += $NF }
    END { print sum + 0 }' "$logs/metrics"
}

# mean_accepted: tokens of a round, the model's own included.
mean_accepted() {
  awk -v rounds="$(total bole_spec_rounds_total)" \
    -v drafts="$(total bole_spec_accepted_tokens_total)" \
    'BEGIN { printf "%.2f", rounds ? 1 + drafts / rounds : 1 }'
}

# try_trees: the beginning of the same answer, with a tree in every round.
try_trees() {
  kill -TERM "${pids[scheduler]}"
  wait "${pids[scheduler]}" || true
  start_scheduler --listen 127.0.0.1:0 --policy fixed --speculation tree
  timeout 5 "$bole" generate --temperature 0 --max-tokens 32 -- "$prompt" \
    >"$logs/trial.out" 2>&1 || true
  scrape
}

# explain: what was drafted for the answer and why, and what trees bring.
explain() {
  local rounds='bole_policy_rounds_total{choice=' chosen=trees why have='they had'
  scrape
  if (($(total "$rounds\"off\"" 'reason="no_drafter"') > 0)); then
    echo "speculation: none, because the model has no drafter" >&2
    return
  fi
  local tree chain off
  tree=$(total "$rounds\"tree\"")
  chain=$(total "$rounds\"chain\"")
  off=$(total "$rounds\"off\"")
  why='that was expected to be the fastest here, as rounds were measured'
  if ((off > tree + chain)); then
    chosen=none why=${why/that/plain decoding}
  elif ((chain > tree)); then
    chosen=chains
  fi
  if [[ ! -s $table ]]; then
    why='what rounds cost here was not measured (--serve does that once)'
  fi
  if [[ $chosen != trees ]]; then
    try_trees
    have='in a short trial trees had'
  fi
  echo "speculation: $chosen, because $why; $have $(mean_accepted) tokens" \
    "accepted a round" >&2
}

print_addresses() {
  local of_scheduler of_worker
  of_scheduler=http://127.0.0.1:$(said scheduler 'metrics on port')/metrics
  of_worker=http://127.0.0.1:$(said worker 'metrics on port')/metrics
  cat <<EOT
scheduler  $BOLE_SERVER  metrics $of_scheduler
worker     $(said worker 'listening on')  metrics $of_worker

Elsewhere, for example:

  export BOLE_SERVER=$BOLE_SERVER
  $bole generate 'Write a python function to add two numbers.'
  $bole chat
  $bole info
  curl $of_scheduler

Ctrl-C stops both.
EOT
}

trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
[[ $bundle ]] || build
start_services
if $serve; then
  trap 'exit 0' INT TERM
  print_addresses
  wait -n "${pids[@]}" || true
  echo "a service ended by itself" >&2
  exit 1
fi
"$bole" generate --temperature 0 --max-tokens 256 -- "$prompt"
# The answer is there, whatever goes wrong here.
explain || true
