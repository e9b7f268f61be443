#!/usr/bin/env python3
"""Where generated texts leave the reference's greedy ones, and by what margin.

Usage: compare_greedy.py GREEDY.json LARGEST GENERATED.json...

GREEDY.json is tests/golden/demo/greedy.json: prompts, the reference's greedy
continuations, and the margin of logits at every choice. Each GENERATED.json was
written by

    bole-eval generate --prompts PROMPTS --max-tokens 96 --ignore-eos --out FILE

with the same prompts in the same order. A text may leave the reference's at a
choice whose margin rounding can turn over, and nowhere else: exits with 1 if
one does where the margin is above LARGEST. Prints the choices where texts part,
and how many texts of the files differ from each other.
"""

import json
import pathlib
import sys


def first_difference(a, b):
    """The first place where two lists of ids differ, None if there is none."""
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return i
    return None


def texts(path):
    return [r["output_ids"] for r in json.loads(path.read_text())["results"]]


def main(greedy, largest, paths):
    reference = json.loads(pathlib.Path(greedy).read_text())
    files = {path: texts(pathlib.Path(path)) for path in paths}
    worst = 0.0
    for path, generated in files.items():
        if len(generated) != len(reference):
            sys.exit(f"{path}: {len(generated)} texts, not {len(reference)}")
        equal = 0
        for i, (want, got) in enumerate(zip(reference, generated)):
            place = first_difference(want["greedy_ids"], got)
            if place is None:
                equal += 1
                continue
            margin = want["margins"][place]
            worst = max(worst, margin)
            print(f"{path}: text {i} parts at token {place}, margin {margin}")
        print(f"{path}: {equal} of {len(reference)} texts are the reference's")
    first, *rest = files
    for path in rest:
        differ = sum(a != b for a, b in zip(files[first], files[path]))
        print(f"{path}: {differ} of {len(reference)} texts are not {first}'s")
    print(f"largest margin at a difference: {worst}")
    return 1 if worst > largest else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
