#!/usr/bin/env bash
# Runs g++ 12 and clang-tidy 14, with the checks of .clang-tidy. Neither begins
# with precompiled headers, so they see an #include that is missing.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: tests/lint/clang_tidy.sh [--fast] [--since COMMIT] [FILE.cc...]

Checks the given files, those that differ from COMMIT, or every .cc file of the
tree, and the headers of ours that they include. One file per processor at a
time. Exits with 1 if there is a finding.

  --fast  without the static analyzer, which takes half of the time
EOF
}

# tidy_one INDEX TOTAL FILE, in a process of its own.
tidy_one() {
  local status=0 said checks=()
  # The static analyzer takes three quarters of the time, most of it within
  # GoogleTest's macros; tests run under the sanitizers instead.
  [[ $3 == tests/* || $FAST ]] && checks=(--checks='-clang-analyzer-*')
  # The flags that .bazelrc and third_party give to every file; no compilation
  # database is needed.
  local flags=(-std=c++20 -I. -isystem "$GENERATED" -isystem "$CUDA_HOME/include"
    -Wall -Wextra -DPCRE2_CODE_UNIT_WIDTH=8 -DCPPHTTPLIB_OPENSSL_SUPPORT)
  said=$(g++ -fsyntax-only -Werror "${flags[@]}" "$3" 2>&1 &&
    clang-tidy-14 --quiet "${checks[@]}" "$3" -- "${flags[@]}" \
      -Wthread-safety 2>&1) || status=1
  echo "[$1/$2] $3 $SECONDS s"
  if ((status)); then
    grep -vE '^[0-9]+ warnings?( and [0-9]+ errors?)? generated\.$' <<<"$said"
  fi
  return "$status"
}

case ${1:-} in
  -h | --help) usage; exit 0 ;;
  --one) shift; tidy_one "$@"; exit ;;
esac

cd "$(dirname "$0")/../.."
export FAST=
[[ ${1:-} == --fast ]] && { FAST=yes; shift; }
if [[ ${1:-} == --since ]]; then
  (($# == 2)) || { usage >&2; exit 2; }
  listed=$(git diff --name-only --diff-filter=d "$2" -- '*.cc')
elif (($# > 0)); then
  listed=$(printf '%s\n' "$@")
else
  listed=$(git ls-files '*.cc')
fi
export CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
[[ -d $CUDA_HOME/include ]] || listed=$(grep -v '/cuda/' <<<"$listed" || true)
[[ $listed ]] || { echo "clang-tidy: no files"; exit 0; }
mapfile -t files <<<"$listed"

# The messages' headers, where no build has made them yet.
GENERATED=$(mktemp -d "${TMPDIR:-/tmp}/bole_tidy.XXXXXX")
export GENERATED
trap 'rm -rf "$GENERATED"' EXIT
find proto tests -name '*.proto' -print0 | xargs -0 protoc -I. \
  --cpp_out="$GENERATED" --grpc_out="$GENERATED" \
  --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin
protoc -Ithird_party/googleapis --cpp_out="$GENERATED" \
  google/rpc/error_details.proto google/rpc/status.proto

status=0
for index in "${!files[@]}"; do
  printf '%s\0' "$((index + 1))" "${#files[@]}" "${files[index]}"
done | xargs -0 -n 3 -P "$(nproc)" tests/lint/clang_tidy.sh --one || status=1
((status)) || echo "clang-tidy: ${#files[@]} files clean in $SECONDS s"
exit "$status"
