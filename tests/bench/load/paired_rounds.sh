#!/usr/bin/env bash
# Two builds of round_bench in turn, and the median ratio of what the scheduler
# adds to a round: in memory, and over gRPC without what the same messages take
# there with nothing between.
#
# usage: tests/bench/load/paired_rounds.sh NEW OLD [PAIRS]
#
# NEW and OLD are the binaries, each in its own tree
# (TREE/bazel-bin/tests/bench/round_bench); PAIRS is 10 unless told otherwise. They
# take turns to begin. Prints a JSON object with the medians of the p50s. Exits
# with 1 if the memory path takes more than 1.0 of OLD's time, or the gRPC path
# less its bare transport more than 0.8.
set -euo pipefail

if (($# < 2 || $# > 3)) || [[ $1 == -* ]]; then
  sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
new=$(realpath -s "$1") old=$(realpath -s "$2") pairs=${3:-10}

# The root of the tree that a binary is from: models/demo is found from there.
root_of() { echo "${1%/bazel-bin/*}"; }

# measure BINARY: "MEMORY GRPC BARE", the p50s in microseconds. What it would
# print after those is not waited for.
measure() {
  local root pid
  root=$(root_of "$1")
  : >"$scratch/now"
  (cd "$root" && exec stdbuf -oL "$1") >"$scratch/now" &
  pid=$!
  until grep -q 'nothing between' "$scratch/now"; do
    kill -0 "$pid"
    sleep 0.2
  done
  kill "$pid"
  wait "$pid" 2>/dev/null || true
  awk '/result to plan/ { m = value() }
       /through the scheduler/ { g = value() }
       /nothing between/ { print m, g, value() }
       function value(  i) {
         for (i = 1; i < NF; i++) if ($i == "p50") return $(i + 1)
       }' "$scratch/now"
}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/bole-rounds.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
results=$scratch/results
for ((i = 0; i < pairs; i++)); do
  if ((i % 2 == 0)); then
    new_now=$(measure "$new")
    old_now=$(measure "$old")
  else
    old_now=$(measure "$old")
    new_now=$(measure "$new")
  fi
  echo "$new_now $old_now" | tee -a "$results" >&2
done

python3 - "$results" <<'EOF'
import json
import statistics
import sys

pairs = [[float(x) for x in line.split()] for line in open(sys.argv[1])]
memory = [p[0] / p[3] for p in pairs]
grpc = [(p[1] - p[2]) / (p[4] - p[5]) for p in pairs]
report = {
    "bench": "paired rounds",
    "pairs": len(pairs),
    "memory_ratio": round(statistics.median(memory), 3),
    "grpc_less_transport_ratio": round(statistics.median(grpc), 3),
    "new_memory_us": statistics.median(p[0] for p in pairs),
    "old_memory_us": statistics.median(p[3] for p in pairs),
    "new_grpc_us": statistics.median(p[1] for p in pairs),
    "new_bare_us": statistics.median(p[2] for p in pairs),
    "old_grpc_us": statistics.median(p[4] for p in pairs),
    "old_bare_us": statistics.median(p[5] for p in pairs),
    "memory_ratios": [round(x, 3) for x in sorted(memory)],
    "grpc_ratios": [round(x, 3) for x in sorted(grpc)],
}
print(json.dumps(report))
sys.exit(0 if report["memory_ratio"] <= 1.0
         and report["grpc_less_transport_ratio"] <= 0.8 else 1)
EOF
