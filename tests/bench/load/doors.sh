#!/usr/bin/env bash
# What the HTTP door costs: the same load over gRPC and over HTTP in turn, against
# the scheduler and a simulated worker whose rounds take 1 ms.
#
# usage: tests/bench/load/doors.sh PAIRS OUT [--no-drafter]
#
# 64 streams in a closed loop; each run sends the same sessions, and the doors take
# turns to begin. The client shares the machine, and what it costs itself is part
# of what is measured; the scheduler's processor time is taken from /proc, so that
# it is the door's alone. Writes a JSON object to OUT. Exits with 1 if the median
# of the pairs' throughput over HTTP is below 0.9 of that over gRPC, or the median
# of the differences of the time to first token is above 1 ms.
set -euo pipefail

if (($# < 2 || $# > 3)) || [[ $1 == -* || ${3:---no-drafter} != --no-drafter ]]; then
  sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
pairs=$1 out=$(realpath -m "$2") drafter=${3:-}
command="tests/bench/load/doors.sh $*"
cd "$(dirname "$0")/../../.."
mkdir -p "$(dirname "$out")"

read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --noshow_progress --show_result=0 \
  //clients/cli:bole //scheduler_service:bole-scheduler \
  //tests/simulation:bole-sim-worker
bole='bazel-bin/clients/cli/bole'

# shellcheck source=tests/bench/load/services.sh
. tests/bench/load/services.sh
cat >"$logs/costs.json" <<'EOT'
{"terms": [{"name": "forward", "axes": [["requests", [1, 64]]],
            "microseconds": [1000, 1000]}]}
EOT
# shellcheck disable=SC2086 # Without a flag there is no argument.
start worker bazel-bin/tests/simulation/bole-sim-worker --model models/demo \
  --listen 127.0.0.1:0 --max-requests 64 --max-nodes 1024 --max-prefill 8192 \
  --context 1024 --costs "$logs/costs.json" $drafter
start scheduler bazel-bin/scheduler_service/bole-scheduler \
  --model models/demo --allow-synthetic --worker "$(said worker 'listening on')" \
  --listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --max-running 64
connect
http=http://127.0.0.1:$(said scheduler 'http on port')

# cpu_ms PID: processor time of all its threads so far.
cpu_ms() {
  local stat
  stat=$(<"/proc/$1/stat")
  read -ra stat <<<"${stat##*) }"
  echo $(((stat[11] + stat[12]) * 1000 / $(getconf CLK_TCK)))
}

# measure DOOR: one run, as a line of JSON.
measure() {
  local flags=() before after
  [[ $1 == http ]] && flags=(--http "$http")
  before=$(cpu_ms "${pids[scheduler]}")
  "$bole" bench "${flags[@]}" --synthetic 32:256 --concurrency 64 \
    --sessions 1280 --warmup 64 --metrics-url "$metrics_url" --json \
    >"$logs/run.json" 2>"$logs/run.log" || { cat "$logs/run.log" >&2; return 1; }
  after=$(cpu_ms "${pids[scheduler]}")
  python3 - "$1" "$logs/run.json" "$((after - before))" <<'EOT'
import json
import sys

door, report, cpu_ms = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
counts = report["counts"]
if counts["succeeded"] != 1280 or counts["output_tokens"] != 1280 * 256:
    sys.exit(f"{door}: {counts}")
wrong = [p for p in report["server"]
         if not p["name"].endswith("mean") and not p["agrees"]]
if wrong:
    sys.exit(f"{door}: the server counted otherwise: {wrong}")
warm_up_tokens = 64 * 256
print(json.dumps({
    "door": door,
    "tokens_per_second": report["rates"]["output_tokens_per_second"],
    "ttft_p50_ms": report["latencies"]["ttft"]["p50"] * 1000,
    "itl_p50_ms": report["latencies"]["itl"]["p50"] * 1000,
    "server_cpu_s_per_1000_tokens":
        cpu_ms / (counts["output_tokens"] + warm_up_tokens),
}))
EOT
}

for ((i = 0; i < pairs; i++)); do
  doors=(grpc http)
  ((i % 2 == 0)) || doors=(http grpc)
  for door in "${doors[@]}"; do
    measure "$door" | tee -a "$logs/runs" >&2
  done
done

python3 - "$logs/runs" "$out" "$command" \
  "$(git describe --always --dirty --abbrev=10 2>/dev/null || echo unknown)" \
  "$(nproc)" <<'EOT'
import json
import statistics
import sys

runs_path, out_path, command, commit, cores = sys.argv[1:]
runs = [json.loads(line) for line in open(runs_path)]
doors = {door: [r for r in runs if r["door"] == door]
         for door in ("grpc", "http")}
pairs = list(zip(doors["grpc"], doors["http"]))


def spread(values, digits):
    return {"median": round(statistics.median(values), digits),
            "min": round(min(values), digits),
            "max": round(max(values), digits)}


report = {
    "bench": "doors",
    "command": command,
    "commit": commit,
    "cores": int(cores),
    "streams": 64,
    "pairs": len(pairs),
    "throughput_http_over_grpc": spread(
        [h["tokens_per_second"] / g["tokens_per_second"] for g, h in pairs], 3),
    "ttft_p50_http_minus_grpc_ms": spread(
        [h["ttft_p50_ms"] - g["ttft_p50_ms"] for g, h in pairs], 3),
}
for door, of_door in doors.items():
    report[door] = {
        key: spread([run[key] for run in of_door], digits)
        for key, digits in (("tokens_per_second", 0), ("ttft_p50_ms", 3),
                            ("itl_p50_ms", 3),
                            ("server_cpu_s_per_1000_tokens", 5))}
with open(out_path, "w") as file:
    json.dump(report, file, indent=1)
    file.write("\n")
print(json.dumps(report))
sys.exit(0 if report["throughput_http_over_grpc"]["median"] >= 0.9
         and report["ttft_p50_http_minus_grpc_ms"]["median"] <= 1 else 1)
EOT
