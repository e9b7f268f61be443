#!/usr/bin/env python3
"""Checks that source files stay small enough to read.

Usage: size_check.py ROOT [EXEMPTIONS]

A header has at most 250 lines, any other source 400, and the median of a
project of ten files or more is at most 150. EXEMPTIONS has lines "PATH LIMIT
REASON"; an exemption without a reason, for a file that is gone, or for one that
no longer needs it is an error as well. clang-tidy checks the size of functions.

Prints one line per offence and exits with 1 if there is one.
"""

import os
import pathlib
import statistics
import sys

LIMITS = {".h": 250, ".cuh": 400, ".cc": 400, ".cu": 400}
MAX_MEDIAN = 150
MIN_FILES_FOR_MEDIAN = 10


def source_lines(root):
    """{path relative to root: number of lines} of every source."""
    lines = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "bazel-"))]
        for name in names:
            path = pathlib.Path(folder, name)
            if path.suffix in LIMITS:
                with open(path, encoding="utf-8") as text:
                    count = sum(1 for _ in text)
                lines[str(path.relative_to(root))] = count
    return lines


def read_exemptions(path):
    """({path: limit}, offences) of an exemptions file, {} if there is none."""
    exempt, offences = {}, []
    if path is None or not os.path.exists(path):
        return exempt, offences
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split(maxsplit=2)
            if len(words) < 3 or not words[1].isdigit():
                offences.append(f"{path}:{number}: not PATH LIMIT REASON")
                continue
            exempt[words[0]] = int(words[1])
    return exempt, offences


def check(lines, exempt):
    """The offences of a tree."""
    offences = []
    for path, count in sorted(lines.items()):
        usual = LIMITS[pathlib.Path(path).suffix]
        limit = exempt.get(path, usual)
        if count > limit:
            offences.append(f"{path}: {count} lines, the limit is {limit}")
        elif path in exempt and count <= usual:
            offences.append(f"{path}: {count} lines need no exemption")
    for path in sorted(set(exempt) - set(lines)):
        offences.append(f"{path}: exempt, but there is no such file")
    if len(lines) >= MIN_FILES_FOR_MEDIAN:
        median = statistics.median(lines.values())
        if median > MAX_MEDIAN:
            offences.append(
                f"the median file has {median:g} lines, the limit is "
                f"{MAX_MEDIAN}"
            )
    return offences


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    lines = source_lines(sys.argv[1])
    if not lines:
        print(f"no sources in {sys.argv[1]}")
        return 2
    exempt, offences = read_exemptions(sys.argv[2] if len(sys.argv) == 3 else None)
    offences += check(lines, exempt)
    for offence in offences:
        print(offence)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
