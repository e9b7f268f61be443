#!/usr/bin/env bash
# 1,000 running and 5,000 queued streams of one client process, against the
# scheduler and a simulated worker. Prints the most that ran and waited at one
# time, and what the client process took.
#
# usage: tests/bench/load/many_streams.sh [OUT]
#
# Needs some two minutes. Reports go to the folder OUT. Exits with 1 if there were
# not so many at one time, if a request failed, or if a count differs.
set -euo pipefail

if (($# > 1)) || [[ ${1:-} == -* ]]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
out=$(realpath -m "${1:-load-reports}")
cd "$(dirname "$0")/../../.."
mkdir -p "$out"

read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --noshow_progress --show_result=0 \
  //clients/cli:bole //scheduler_service:bole-scheduler \
  //tests/simulation:bole-sim-worker
bole='bazel-bin/clients/cli/bole'

# shellcheck source=tests/bench/load/services.sh
. tests/bench/load/services.sh
# A round of 1,000 requests takes 250 ms. A GPU would be faster, but two cores
# could then not deliver the messages of all streams.
cat >"$logs/costs.json" <<'EOT'
{"terms": [{"name": "forward", "axes": [["requests", [1, 1000]]],
            "microseconds": [5000, 250000]},
           {"name": "prefill", "axes": [["prefill_tokens", [1, 8192]]],
            "microseconds": [1000, 20000]}]}
EOT
start worker bazel-bin/tests/simulation/bole-sim-worker --model models/demo \
  --listen 127.0.0.1:0 --max-requests 1000 --max-nodes 4096 \
  --max-prefill 8192 --context 1024 --costs "$logs/costs.json"
start scheduler bazel-bin/scheduler_service/bole-scheduler \
  --model models/demo --allow-synthetic --worker "$(said worker 'listening on')" \
  --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --max-running 1000 --max-waiting-requests 6000 --max-open-requests 8192
connect

"$bole" bench --synthetic 64:64 --rate inf -n 6000 \
  --metrics-url "$metrics_url" --out "$out/many.json" --svg "$out/many.svg" \
  >"$out/many.txt" &
client=$!
running=0 waiting=0 both=0 threads=0 memory=0
while kill -0 "$client" 2>/dev/null; do
  read -r now_running now_waiting < <("$bole" info --json |
    sed -E 's/.*"running_requests":([0-9]+),"waiting_requests":([0-9]+).*/\1 \2/')
  if ((now_running + now_waiting > both)); then
    running=$now_running waiting=$now_waiting
    both=$((running + waiting))
  fi
  if [[ -r /proc/$client/status ]]; then
    threads=$(awk '/^Threads/ { print $2 }' "/proc/$client/status" || true)
    memory=$(awk '/^VmHWM/ { print $2 }' "/proc/$client/status" || true)
  fi
  sleep 0.2
done
wait "$client"
cat "$out/many.txt"
echo "at one time $running running and $waiting waiting;" \
  "the client had ${threads:-?} threads and ${memory:-?} KiB"

# Counts alone: the machine is not quiet, with three busy processes on it.
python3 - "$out/many.json" "$running" "$waiting" <<'EOT'
import json
import sys

report = json.load(open(sys.argv[1]))
running, waiting = int(sys.argv[2]), int(sys.argv[3])
wrong = [
    pair["name"] for pair in report["server"]
    if not pair["name"].endswith("mean") and not pair["agrees"]
]
failures = []
if running < 1000 or waiting < 4900:
    failures.append(f"only {running} ran and {waiting} waited at one time")
if report["counts"]["succeeded"] != 6000:
    failures.append(f"{report['counts']['succeeded']} of 6000 ended well")
if wrong:
    failures.append("the server counted otherwise: " + ", ".join(wrong))
print("; ".join(failures) or "all 6000 ended well, and every count agrees")
sys.exit(1 if failures else 0)
EOT
