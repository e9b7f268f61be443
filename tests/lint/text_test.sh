#!/usr/bin/env bash
# No file names a place on a developer's machine, and the check that says so
# finds one.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"
check=$root/tests/lint/text_check.sh

refused() {
  echo "$1" >"$scratch/README.md"
  "$check" "$scratch" >/dev/null && fail "not refused: $1"
  return 0
}

for place in work root home; do
  refused "see /$place/somebody/notes.txt"
  refused "path = \"/$place/x\""
done

echo 'tests/work/a, homework/, /usr/share/doc' >"$scratch/README.md"
"$check" "$scratch" || fail 'refused harmless text'

"$check" "$root" || fail 'the lines above name places on a machine'
