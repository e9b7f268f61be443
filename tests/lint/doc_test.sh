#!/usr/bin/env bash
# The files and functions that documents name exist, and the check that says so
# finds those that do not.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"
check=$root/tests/lint/doc_check.py

mkdir -p "$scratch/doc" "$scratch/common/chat"
echo 'void Engine::Step() {}' >"$scratch/common/step.cc"
echo >"$scratch/common/step.h"
echo >"$scratch/common/chat/ast.h"

# with FILE TEXT: what the check says of a document with this text.
with() {
  echo "$2" >"$scratch/$1"
  local status=0
  "$check" "$scratch" >/dev/null || status=1
  rm "$scratch/$1"
  return "$status"
}

# shellcheck disable=SC2016
{
  with doc/a.md 'see `common/step.{h,cc}` and `Engine::Step()`, or `a / b`' ||
    fail 'refused what is there'
  with doc/a.md 'see `common/stop.h`' && fail 'not refused: no such file'
  with doc/a.md 'see `common/step.{h,cu}`' && fail 'not refused: one of two'
  with doc/a.md 'see `chat/ast.h`' && fail 'not refused: not from the root'
  with doc/a.md 'see `Engine::Stop()`' && fail 'not refused: no such function'
  with common/README.md 'see `chat/ast.h` and `Engine::Stop()`' ||
    fail 'refused the end of a path'
}

"$check" "$root" || fail 'the lines above name what is not there'
