#!/usr/bin/env python3
"""Checks that what documents name exists.

Usage: doc_check.py ROOT

A path of a file in backticks (`common/step.h`; `{h,cc}` and `*` stand for
several) exists: in doc/ and in the README of the root from there, in any other
README as the end of a file's path. In doc/, every name of a function in
backticks (`Engine::Step()`, `SelectNodes()`) occurs in the sources.

Prints one line per offence, "FILE:LINE: ...", and exits with 1 if there is one.
"""

import fnmatch
import itertools
import os
import pathlib
import re
import sys

SOURCES = {".h", ".cc", ".cu", ".cuh"}
SUFFIXES = r"h|cc|cu|cuh|md|py|sh|proto|json|bzl|txt"
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"[\w.{{}},*-]+(/[\w.{{}},*-]+)+\.({SUFFIXES}|{{[a-z,]+}})")
FUNCTION = re.compile(r"((?:\w+::)*)(\w+)\([^`]*\)")


def walk(root):
    """Every file of the tree, relative to it, without what Bazel makes."""
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "bazel-", "node_modules"))]
        for name in names:
            yield pathlib.Path(folder, name).relative_to(root)


def braces(pattern):
    """The paths that a pattern with {a,b} stands for."""
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices = [
        part.split(",") if i % 2 else [part] for i, part in enumerate(parts)
    ]
    return ["".join(choice) for choice in itertools.product(*choices)]


def exists(pattern, files, from_root):
    before = "" if from_root else "*/"
    pattern = re.sub(r"^(\.{1,2}/)+", "", pattern)
    return all(
        fnmatch.filter(files, path) or fnmatch.filter(files, before + path)
        for path in braces(pattern)
    )


def words(root, files):
    """Every identifier of the sources."""
    found = set()
    for path in files:
        if path.suffix in SOURCES:
            text = (root / path).read_text(encoding="utf-8")
            found.update(re.findall(r"\w+", text))
    return found


def check(root):
    files = list(walk(root))
    names = [str(path) for path in files]
    known = words(root, files)
    for document in sorted(files):
        in_doc = document.parts[0] == "doc" and document.suffix == ".md"
        if not in_doc and document.name != "README.md":
            continue
        from_root = in_doc or len(document.parts) == 1
        text = (root / document).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            for span in SPAN.findall(line):
                place = f"{document}:{number}"
                if PATH.fullmatch(span):
                    if not exists(span, names, from_root):
                        yield f"{place}: there is no file {span}"
                    continue
                function = FUNCTION.fullmatch(span)
                if not in_doc or not function:
                    continue
                for name in [*function[1].split("::"), function[2]]:
                    if name and name not in known:
                        yield f"{place}: {span}: the sources have no {name}"


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if "-h" in sys.argv or "--help" in sys.argv else 2
    offences = list(check(pathlib.Path(sys.argv[1])))
    for offence in offences:
        print(offence)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
