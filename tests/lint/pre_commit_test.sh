#!/usr/bin/env bash
# A commit of what is in order passes, and each offence is found in what is
# staged, and only there.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"

for tool in git clang-format-14 shellcheck; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 0; }
done

mkdir -p "$scratch/tree/tests"
cp -rL "$root/tests/lint" "$scratch/tree/tests/lint"
cp "$root/.clang-format" "$scratch/tree"
cd "$scratch/tree"
# The exemptions name files of the real tree.
: >tests/lint/size_exemptions.txt
git init -q

hook() { tests/lint/pre_commit.sh --no-tidy >/dev/null 2>&1; }

# refused FILE: it is found when it is staged. Leaves it out again.
refused() {
  git add "$1"
  hook && fail "not refused: $1"
  git rm -qf --cached "$1"
  hook || fail "refused although it is not staged: $1"
  rm "$1"
}

mkdir common
echo 'int One() { return 1; }' >common/one.cc
git add common/one.cc
hook || fail 'refused a file that is in order'

echo 'int  Two( ) {return 2;}' >common/two.cc
refused common/two.cc

# shellcheck disable=SC2016
printf '#!/bin/sh\nrm $1\n' >three.sh
refused three.sh

for _ in $(seq 401); do echo 'int x;'; done >common/long.cc
git add common/long.cc
hook && fail 'not refused: a file of 401 lines'
git rm -qf --cached common/long.cc
rm common/long.cc

echo '#include "kernels/backend.h"' >common/wrong.h
git add common/wrong.h
hook && fail 'not refused: common includes kernels'
exit 0
