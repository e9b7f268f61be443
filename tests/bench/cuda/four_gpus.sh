#!/usr/bin/env bash
# A model of 122 billion parameters on four GPUs of a host, and on two.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: tests/bench/cuda/four_gpus.sh BUNDLE OUT [COMMIT]

Measures on two and on four GPUs (tests/bench/ranks/measure.py): exchanges alone,
by push, in both its forms, and by NCCL; steps of 122B-A10B and 27B; offline
decoding of 122B-A10B with mean acceptances of 6 and 3; both services with a cost
table; 10,000 rounds with digests; a rank that is killed, and one that is stopped.

A call begins nothing after 500 seconds, or BOLE_PART_SECONDS of the environment,
and then exits with 75: call it again until it exits with 0. With fewer than four
GPUs it measures on those that there are. Then tests/bench/ranks/summarize.py OUT
shows what was measured.
EOF
}

case ${1:-} in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 2)) || { usage >&2; exit 2; }
bundle=$(realpath "$1") out=$(realpath -m "$2") commit=${3:-unknown}

cd "$(dirname "$0")/../../.."
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
case $gpus in
  0 | 1) echo "four_gpus.sh: there are $gpus GPUs" >&2; exit 2 ;;
  2 | 3) ranks=2 ;;
  *) ranks=4,2 ;;
esac
measure() {
  tests/bench/ranks/measure.py "$bundle" "$out" --ranks "$ranks" \
    --commit "$commit" --seconds "$((${BOLE_PART_SECONDS:-500} - SECONDS))" "$@"
}
measure --what sums
measure --what steps --models 122B-A10B,27B
# On two GPUs more than eight tenths of the memory are weights.
measure --what decode,serve,rounds --models 122B-A10B --accept 6,3 \
  --worker-flags '--memory-fraction 0.97 --max-requests 16'
# Another worker, of the whole model, has to fit beside one of its ranks.
measure --what kill --models 9B
