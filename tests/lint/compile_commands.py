#!/usr/bin/env python3
"""Writes compile_commands.json, which clangd and clang tools read.

Usage: compile_commands.py [TARGETS]

Asks Bazel how it would compile every C++ file that TARGETS (by default //...)
stand on, and writes the answer to the root of the tree. Nothing is built, but
the headers of messages exist only after "bazel build //proto/...". CUDA files
are not in it: nvcc compiles them with flags that clang does not know.

BAZEL names the command to run instead of "bazel", options included.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys


def run(*arguments):
    """What Bazel prints."""
    bazel = shlex.split(os.environ.get("BAZEL", "bazel"))
    return subprocess.run(
        [*bazel, *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def absolute(argument, execution_root, output_base):
    """`argument` with the folders that only Bazel's own working folder has.

    Sources keep their path from the root of the tree, where editors open them.
    """
    folders = {"bazel-out/": execution_root, "external/": output_base}
    for folder, parent in folders.items():
        for prefix in ("", "-I", "-iquote", "-isystem"):
            if argument.startswith(prefix + folder):
                path = os.path.join(parent, argument[len(prefix) :])
                return prefix + path
    return argument


def compilations(actions, execution_root, output_base, root):
    """The entries for the output of aquery, one for each source."""
    entries = {}
    for action in actions:
        arguments = action["arguments"]
        if "-c" not in arguments:
            continue
        source = arguments[arguments.index("-c") + 1]
        if source.startswith(("bazel-out/", "external/")):
            continue
        entries[source] = {
            "directory": str(root),
            "file": source,
            "arguments": [
                absolute(argument, execution_root, output_base)
                for argument in arguments
            ],
        }
    return [entries[source] for source in sorted(entries)]


def main():
    if len(sys.argv) > 2 or "-h" in sys.argv or "--help" in sys.argv:
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    targets = sys.argv[1] if len(sys.argv) == 2 else "//..."
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    os.chdir(root)
    answer = run(
        "aquery", "--output=jsonproto", f'mnemonic("CppCompile", deps({targets}))'
    )
    info = run("info", "execution_root", "output_base")
    folders = dict(line.split(": ", 1) for line in info.splitlines())
    entries = compilations(
        json.loads(answer).get("actions", []),
        folders["execution_root"],
        folders["output_base"],
        root,
    )
    path = root / "compile_commands.json"
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {len(entries)} files")
    return 0 if entries else 1


if __name__ == "__main__":
    sys.exit(main())
