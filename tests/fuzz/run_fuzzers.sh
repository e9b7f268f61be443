#!/usr/bin/env bash
# Builds every fuzz target with libFuzzer and AddressSanitizer, and runs each
# for some seconds from its corpus. See tests/fuzz/README.md.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: tests/fuzz/run_fuzzers.sh SECONDS [NAME...]

Runs each fuzz target, or those named (json_fuzz), for SECONDS. The corpus is
read and not changed. Exits with 1 if a target crashed, leaked, or took more
than 10 s for one input; the input is then in the folder that is printed.
EOF
}

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  '' | *[!0-9]*) usage >&2; exit 2 ;;
esac
seconds=$1
shift

cd "$(dirname "$0")/../.."
read -ra bazel <<<"${BAZEL:-bazel}"

query='attr(tags, libfuzzer, kind(cc_binary, //tests/...))'
found_labels=$("${bazel[@]}" query --noshow_progress --ui_event_filters=-info "$query")
labels=()
[[ $found_labels ]] && mapfile -t labels <<<"$found_labels"
if (($# > 0)); then
  wanted=()
  for name in "$@"; do
    match=''
    for label in "${labels[@]}"; do
      [[ $label == *":${name}_libfuzzer" ]] && match=$label
    done
    [[ $match ]] || { echo "no fuzz target named $name" >&2; exit 2; }
    wanted+=("$match")
  done
  labels=("${wanted[@]}")
fi
if ((${#labels[@]} == 0)); then
  echo "no fuzz targets"
  exit 0
fi

"${bazel[@]}" build --config=asan "${labels[@]}"
bin=$("${bazel[@]}" info --config=asan bazel-bin 2>/dev/null)

found=$(mktemp -d "${TMPDIR:-/tmp}/bole_fuzz.XXXXXX")
export seconds bin found

# fuzz_one LABEL, in a process of its own.
fuzz_one() {
  local path=${1#//}
  local package=${path%%:*} program=${path##*:}
  local name=${program%_libfuzzer}
  mkdir -p "$found/$name/new" "$found/$name/crashes"

  local arguments=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048
    -print_final_stats=1 -verbosity=0
    -artifact_prefix="$found/$name/crashes/")
  [[ -f $package/$name.dict ]] && arguments+=(-dict="$package/$name.dict")

  local log=$found/$name/log
  if "$bin/$package/$program" "${arguments[@]}" "$found/$name/new" \
    "$package/corpus/$name" >"$log" 2>&1; then
    echo "$name: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs, no crash"
  else
    tail -n 60 "$log"
    echo "$name: FAILED; input in $found/$name/crashes, log in $log"
    touch "$found/$name/failed"
  fi
}
export -f fuzz_one

# One per processor at a time.
# shellcheck disable=SC2016  # $1 is the inner shell's.
printf '%s\n' "${labels[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz_one "$1"' fuzz_one {}
failed=()
for path in "$found"/*/failed; do
  [[ -e $path ]] && failed+=("$(basename "$(dirname "$path")")")
done

if ((${#failed[@]} > 0)); then
  echo "fuzzing: ${#failed[@]} of ${#labels[@]} targets failed: ${failed[*]}"
  exit 1
fi
rm -rf "$found"
echo "fuzzing: ${#labels[@]} targets, ${seconds} s each, no crash"
