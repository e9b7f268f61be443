#!/usr/bin/env bash
# The online measurement on one H200, with the memory of each model narrowed so
# that snapshots press.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: tests/bench/cuda/online.sh BUNDLE OUT TRACE [MODEL...]

Replays the conversations of TRACE (agent_trace.jsonl) on every system of
tests/bench/online/measure.py with the MODELs 9B and 27B, or those named. A call
begins nothing after 500 seconds, or BOLE_PART_SECONDS of the environment, and
then exits with 75: call it again until it exits with 0.
Then tests/bench/online/summarize.py OUT draws what was measured.

  9B   0.386 of the memory (54 GiB), 60 conversations, one in a second
  27B  0.76 of the memory (107 GiB), 20 conversations, two in five seconds
EOF
}

case ${1:-} in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 3)) || { usage >&2; exit 2; }
bundle=$(realpath "$1") out=$(realpath -m "$2") trace=$(realpath "$3")
shift 3
(($# > 0)) || set -- 9B 27B

cd "$(dirname "$0")/../../.."
for model in "$@"; do
  case $model in
    9B) load=(--memory-fraction 0.386 --rate 1 --sessions 60) ;;
    27B) load=(--memory-fraction 0.76 --max-nodes 256 --rate 0.4 --sessions 20) ;;
    *) echo "online.sh: no settings for the model $model" >&2; exit 2 ;;
  esac
  tests/bench/online/measure.py "$bundle" "$out" --trace "$trace" \
    --models "synthetic:$model,accept=3" --think 2 --think-scale 0.1 \
    --seconds "$((${BOLE_PART_SECONDS:-500} - SECONDS))" "${load[@]}"
done
