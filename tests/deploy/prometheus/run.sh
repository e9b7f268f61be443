#!/usr/bin/env bash
# Builds what the tests of this folder run, and runs them.
#
# BAZEL names the command to run instead of "bazel", options included.
set -euo pipefail

cd "$(dirname "$0")/../../.."
read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --show_result=0 --noshow_progress \
  //scheduler_service:bole-scheduler //tests/simulation:bole-sim-worker \
  //clients/cli:bole
status=0
for test in watch faults; do
  "tests/deploy/prometheus/${test}_test.py" || status=1
done
exit "$status"
