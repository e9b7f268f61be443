#!/usr/bin/env bash
# compile_commands.py turns what Bazel answers into what clangd reads.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"

mkdir -p "$scratch/tree/tests/lint"
cp "$root/tests/lint/compile_commands.py" "$scratch/tree/tests/lint"
cat >"$scratch/bazel" <<'EOT'
#!/bin/sh
case $1 in
  info) printf 'execution_root: /exec\noutput_base: /base\n' ;;
  aquery)
    cat <<'JSON'
{"actions": [
  {"mnemonic": "CppCompile", "arguments": ["gcc", "-iquote", ".", "-iquote",
   "bazel-out/bin", "-isystem", "external/cuda/include", "-Iexternal/x",
   "-std=c++20", "-c", "common/json.cc", "-o", "bazel-out/bin/json.o"]},
  {"mnemonic": "CppCompile", "arguments": ["gcc", "-c", "bazel-out/bin/a.pb.cc"]}
]}
JSON
    ;;
esac
EOT
chmod +x "$scratch/bazel"

BAZEL=$scratch/bazel "$scratch/tree/tests/lint/compile_commands.py" >/dev/null
python3 - "$scratch/tree/compile_commands.json" "$scratch/tree" <<'EOT' ||
import json, os, sys
[entry] = json.load(open(sys.argv[1]))
assert entry == {
    "directory": os.path.realpath(sys.argv[2]),
    "file": "common/json.cc",
    "arguments": ["gcc", "-iquote", ".", "-iquote", "/exec/bazel-out/bin",
                  "-isystem", "/base/external/cuda/include",
                  "-I/base/external/x", "-std=c++20", "-c", "common/json.cc",
                  "-o", "/exec/bazel-out/bin/json.o"],
}, entry
EOT
  fail 'the compilation is not as Bazel runs it'
