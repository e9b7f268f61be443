#!/usr/bin/env bash
# No file names a place on a developer's machine.
#
# usage: text_check.sh ROOT
#
# Prints one line per offence, "FILE:LINE:TEXT", and exits with 1 if there is
# one. Model files and golden outputs are not read.
set -euo pipefail

if (($# != 1)) || [[ ! -d $1 ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
cd "$1"

# The brackets keep this file from matching itself.
places='(^|[^A-Za-z0-9_.-])/([w]ork|[r]oot|[h]ome)/'

! grep -rnIE "$places" . --exclude-dir=.git --exclude=.git \
  --exclude-dir='bazel-*' --exclude-dir=node_modules \
  --exclude-dir=golden --exclude='*.safetensors' --exclude=tokenizer.json \
  --exclude=.bazelrc.user
