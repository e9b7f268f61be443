#!/usr/bin/env bash
# Runs proto/examples/node against both services, where npm is there.
#
# Its packages come from the registry that npm is configured for, in the
# versions of the lock file, into a folder that goes away.
#
# BAZEL names the command to run instead of "bazel", options included.
set -euo pipefail

cd "$(dirname "$0")/../../.."
if ! command -v npm >/dev/null; then
  echo "npm is not installed: the example in JavaScript is not run"
  exit 0
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/bole_node.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --show_result=0 --noshow_progress \
  //scheduler_service:bole-scheduler //worker_service:bole-worker
cp -r --parents proto/bole.proto proto/examples/node "$scratch"
example=$scratch/proto/examples/node
(cd "$example" && rm -rf node_modules && npm ci --ignore-scripts --silent)
tests/clients/node/node_check.py "$example/generate.mjs"
