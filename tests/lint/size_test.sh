#!/usr/bin/env bash
# Every source is within the size limits, and the check that says so finds each
# kind of offence.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"
check=$root/tests/lint/size_check.py

# with_lines FILE COUNT: a file of COUNT lines.
with_lines() {
  mkdir -p "$(dirname "$1")"
  yes '//' | head -n "$2" >"$1" || true
}

refused() {
  local wanted=$1 said
  shift
  said=$("$check" "$@") && fail "not refused: $wanted"
  [[ $said == *"$wanted"* ]] || fail "wanted '$wanted', it said: $said"
}

tree=$scratch/limits
with_lines "$tree/common/at_limit.h" 250
with_lines "$tree/common/at_limit.cc" 400
"$check" "$tree" || fail 'refused files at the limit'

with_lines "$tree/common/long.h" 251
refused 'common/long.h: 251 lines, the limit is 250' "$tree"

echo 'common/long.h 300 a table that reads best in one piece' >"$scratch/exempt"
"$check" "$tree" "$scratch/exempt" || fail 'refused an exemption'

echo 'common/long.h 300' >"$scratch/no_reason"
refused 'not PATH LIMIT REASON' "$tree" "$scratch/no_reason"

echo 'common/at_limit.h 300 was longer once' >>"$scratch/exempt"
refused 'common/at_limit.h: 250 lines need no exemption' "$tree" "$scratch/exempt"

echo 'common/gone.h 300 was here once' >>"$scratch/exempt"
refused 'common/gone.h: exempt, but there is no such file' "$tree" "$scratch/exempt"

for i in {1..11}; do with_lines "$scratch/median/$i.cc" 151; done
refused 'the median file has 151 lines' "$scratch/median"

"$check" "$root" "$root/tests/lint/size_exemptions.txt" ||
  fail 'the files above are too long'
