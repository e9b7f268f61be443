#!/usr/bin/env bash
# Builds everything and runs every test. Needs nothing but Debian 12.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: ./test.sh [--asan | --tsan] [TARGET...]

Installs the packages that are missing, builds everything, and runs every test,
or those of the Bazel TARGETs (//tests/common/...). The last line is

  N passed, N failed, N skipped

counted by test case. Exits with 0 if none failed.

  --asan  under AddressSanitizer and UndefinedBehaviorSanitizer, without the
          tests tagged "slow"
  --tsan  the tests tagged "tsan", under ThreadSanitizer

BAZEL names the command to run instead of "bazel", options included.
EOF
}

cd "$(dirname "$0")"
read -ra bazel <<<"${BAZEL:-bazel}"
options=(--keep_going --noshow_loading_progress)
targets=()
install=()
while (($# > 0)); do
  case $1 in
    --asan) options+=(--config=asan); install=(--ci) ;;
    --tsan) options+=(--config=tsan); install=(--ci) ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
((${#targets[@]} > 0)) || targets=(//...)

deploy/install_packages.sh "${install[@]}"

events=$(mktemp "${TMPDIR:-/tmp}/bole_events.XXXXXX")
trap 'rm -f "$events"' EXIT

bazel_status=0
"${bazel[@]}" test "${options[@]}" --build_event_json_file="$events" \
  -- "${targets[@]}" || bazel_status=$?

python3 tests/summarize.py "$events" "$bazel_status"
