#!/usr/bin/env bash
# An open loop at half and at twice what the CPU services can do. The client's
# counts must be the server's, and its means within 5 % and a round trip.
#
# usage: tests/bench/load/half_and_twice.sh [OUT]
#
# Needs a quiet machine and some five minutes. Reports go to the folder OUT. Exits
# with 1 if a number differs.
set -euo pipefail

if (($# > 1)) || [[ ${1:-} == -* ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
out=$(realpath -m "${1:-load-reports}")
cd "$(dirname "$0")/../../.."
mkdir -p "$out"

read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --noshow_progress --show_result=0 \
  //clients/cli:bole //scheduler_service:bole-scheduler \
  //worker_service:bole-worker
bole='bazel-bin/clients/cli/bole'

# shellcheck source=tests/bench/load/services.sh
. tests/bench/load/services.sh
start worker bazel-bin/worker_service/bole-worker --model models/demo \
  --device cpu --listen 127.0.0.1:0
start scheduler bazel-bin/scheduler_service/bole-scheduler \
  --model models/demo --worker "$(said worker 'listening on')" \
  --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --max-running 8 --max-waiting-requests 16
connect

load=(--synthetic 64:48 --spread 0.5 --metrics-url "$metrics_url")
echo '== capacity: a closed loop of 8'
"$bole" bench "${load[@]}" --concurrency 8 -n 100 --warmup 8 \
  --out "$out/capacity.json" >"$out/capacity.txt"
capacity=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["rates"]["requests_per_second"])' \
  "$out/capacity.json")
echo "$capacity requests/s"

status=0
for share in 0.5 2; do
  rate=$(python3 -c 'import sys
print(float(sys.argv[1]) * float(sys.argv[2]))' "$capacity" "$share")
  echo "== $share times the capacity: $rate requests/s"
  "$bole" bench "${load[@]}" --rate "$rate" --duration 60 --load-seed 1 \
    --slo ttft:2000,tpot:100 --must-agree \
    --out "$out/$share.json" --svg "$out/$share.svg" | tee "$out/$share.txt" ||
    status=1
done
exit "$status"
