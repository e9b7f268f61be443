#!/usr/bin/env bash
# Holds Bole's answers against OpenAI's own package for JavaScript, where npm is
# there: answers of each kind have the shapes of its types, and what it asks of
# both services it gets.
#
# Its packages come from the registry that npm is configured for, in the
# versions of the lock file, into a folder that goes away.
#
# BAZEL names the command to run instead of "bazel", options included.
set -euo pipefail

cd "$(dirname "$0")/../.."
if ! command -v npm >/dev/null; then
  echo "npm is not installed: OpenAI's package is not asked"
  exit 0
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/bole_openai.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --show_result=0 --noshow_progress \
  //tests/openai:openai_samples \
  //scheduler_service:bole-scheduler //worker_service:bole-worker
cp tests/openai/{.npmrc,package.json,package-lock.json,*.mjs} "$scratch"
(cd "$scratch" && npm ci --ignore-scripts --silent)

bazel-bin/tests/openai/openai_samples |
  node "$scratch/check_types.mjs" >"$scratch/samples.ts"
(cd "$scratch" && npx tsc --noEmit --strict --skipLibCheck --target es2022 \
  --module nodenext --moduleResolution nodenext samples.ts)
echo "the answers have the types of OpenAI's package"
tests/openai/openai_check.py "$scratch/end_to_end.mjs"
