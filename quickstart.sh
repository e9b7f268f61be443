#!/usr/bin/env bash
# Builds Bole and answers one question with the embedded demo model.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: ./quickstart.sh [--model DIR] [PROMPT]

Installs the packages that are missing, builds the engine, and streams the
model's answer to PROMPT.

  --model DIR  a Qwen3.5 checkpoint (config.json, tokenizer.json, safetensors);
               by default models/demo, 12M parameters, which is part of the
               project

BAZEL names the command to run instead of "bazel", options included.
EOF
}

here=$(cd "$(dirname "$0")" && pwd)
model=$here/models/demo
prompt='Write a python function to find the maximum of two numbers.'
while (($# > 0)); do
  case $1 in
    --model)
      (($# > 1)) || { usage >&2; exit 2; }
      [[ -d $2 ]] || { echo "--model: there is no folder $2" >&2; exit 2; }
      model=$(cd "$2" && pwd)
      shift
      ;;
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
deploy/install_packages.sh

read -ra bazel <<<"${BAZEL:-bazel}"
if [[ ! -x bazel-bin/worker_service/eval/bole-eval ]]; then
  echo "building; the first time takes some minutes" >&2
fi
options=(--ui_event_filters=-info --show_result=0)
[[ -t 2 ]] || options+=(--noshow_progress)
"${bazel[@]}" build "${options[@]}" //worker_service/eval:bole-eval

exec bazel-bin/worker_service/eval/bole-eval answer --model "$model" "$prompt"
