#!/usr/bin/env python3
"""compute-sanitizer over every test of a program, on a machine with a GPU.

    deploy/bundle.sh BUNDLE //tests/kernels/cuda:operators_test
    # copy the folder and the source tree, then there:
    LD_LIBRARY_PATH=BUNDLE/lib tests/kernels/cuda/sanitize.py \\
        BUNDLE/bin/operators_test --json sanitize.json

Runs memcheck and racecheck, a process for each test, several at a time. Exits
with 1 if a tool finds something that is not a limit of its own (LIMITS), a test
fails, or one takes too long. FILE gets
the tests, what was found in which, and how long it took.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import time

# "========= ERROR SUMMARY: 0 errors", "========= RACECHECK SUMMARY: 0 hazards
# displayed (0 errors, 0 warnings)"
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)",
                     re.MULTILINE)
FINDING = re.compile(r"^=+ ((?:Error|Warning|Invalid|Race).*)$", re.MULTILINE)
PLACE = re.compile(r" in (\S+\.(?:cu|cuh|h):\d+)")

# Where racecheck is wrong: the files that a finding names, and why. After a
# barrier of some of a block's warps it does not see the next barrier of all: it
# names a write before that and a read after it, by different warps. (Written and
# read at both sides of such a pair of barriers alone, it does so as well; with
# either barrier by itself it does not.)
LIMITS = {
    frozenset({"tree_matrices.cuh", "mma.cuh"}):
        "the warps that build the matrices wait for the gates at a barrier of "
        "their own, store the matrices, and meet all others at the block's",
}


def tests_of(program, chosen):
    """Full names, as gtest lists them."""
    listed = subprocess.run(
        [program, "--gtest_list_tests", f"--gtest_filter={chosen}"], check=True,
        stdout=subprocess.PIPE, text=True).stdout
    names = []
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names


def findings_of(output):
    """What is told, with the places in the source, each once."""
    found = collections.Counter()
    for block in re.split(r"^=+ *$", output, flags=re.MULTILINE):
        first = FINDING.search(block)
        if first is None or "SUMMARY" in first[1]:
            continue
        what = re.sub(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\d+", "_", first[1])
        places = ", ".join(dict.fromkeys(PLACE.findall(block)))
        found[f"{what.strip()} {places}".strip()] += 1
    return found


def is_limit(finding):
    files = frozenset(re.findall(r"(\S+\.(?:cu|cuh|h)):", finding))
    return files in LIMITS


def check(tool, test, options):
    """A row for the test."""
    begin = time.monotonic()
    if begin > options.last_begin:
        return {"test": test, "not_done": "not begun"}
    command = ["compute-sanitizer", "--tool", tool, "--show-backtrace", "no",
               "--print-limit", "1000", options.program,
               f"--gtest_filter={test}"]
    row = {"test": test}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              timeout=options.timeout)
    except subprocess.TimeoutExpired:
        row["not_done"] = f"not done after {options.timeout} seconds"
        return row
    row["seconds"] = round(time.monotonic() - begin, 1)
    summary = SUMMARY.findall(done.stdout)
    if done.returncode != 0 or not summary:
        row["error"] = (f"ended with {done.returncode}: "
                        + " | ".join(done.stdout.splitlines()[-3:]))
    elif "[  SKIPPED ]" in done.stdout:
        row["error"] = "skipped: the program found no GPU"
    # A test may start several programs.
    row["found"] = sum(map(int, summary))
    if row["found"]:
        told = findings_of(done.stdout)
        row["limits"] = {k: n for k, n in told.items() if is_limit(k)}
        row["found"] -= sum(row["limits"].values())
        row["findings"] = {k: n for k, n in told.items() if not is_limit(k)}
    return row


def tell(row):
    """What is wrong with a test, as soon as it is known."""
    for key in ("error", "not_done"):
        if key in row:
            print(f"  {row['test']}: {row[key]}", flush=True)
    for what, count in row.get("findings", {}).items():
        print(f"  {row['test']}: {count} x {what}", flush=True)


def run_tool(tool, tests, options):
    """A section of the report."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(check, tool, test, options) for test in tests]
        rows = []
        for done in concurrent.futures.as_completed(running):
            rows.append(done.result())
            tell(rows[-1])
    rows.sort(key=lambda row: row["test"])
    section = {
        "tool": tool,
        "tests": sum("not_done" not in row for row in rows),
        "found": sum(row.get("found", 0) for row in rows),
        "failed": [row for row in rows if "error" in row],
        "not_done": [row["test"] for row in rows if "not_done" in row],
        "findings": [row for row in rows if row.get("findings")],
        "limits_of_the_tool": [row for row in rows if row.get("limits")],
        "seconds": round(time.monotonic() - begin),
        "slowest": sorted(((row["seconds"], row["test"]) for row in rows
                           if "seconds" in row), reverse=True)[:5],
    }
    print(f"{tool}: {section['tests']} tests, {section['found']} found, "
          f"{len(section['failed'])} failed, {len(section['not_done'])} not "
          f"done, {section['seconds']} s", flush=True)
    return section


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--tools", default="memcheck,racecheck",
                        help="of compute-sanitizer, with commas between")
    parser.add_argument("--tests", default="*", help="as --gtest_filter")
    parser.add_argument("--shard", default="0/1", metavar="I/N",
                        help="every Nth test, from the Ith")
    parser.add_argument("--jobs", type=int, default=8, help="at a time")
    parser.add_argument("--timeout", type=int, default=300,
                        help="seconds that a test may take")
    parser.add_argument("--begin-within", type=int, default=86400,
                        help="seconds after which no test is begun")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--gpu", help="told in FILE")
    parser.add_argument("--commit", help="told in FILE")
    options = parser.parse_args()
    options.last_begin = time.monotonic() + options.begin_within
    index, count = map(int, options.shard.split("/"))
    tests = tests_of(options.program, options.tests)[index::count]
    if not tests:
        sys.exit(f"no test of {options.program} matches {options.tests}")
    sections = [run_tool(tool, tests, options)
                for tool in options.tools.split(",")]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"gpu": options.gpu, "commit": options.commit,
             "limits_of_the_tool": [
                 {"files": sorted(files), "why": why}
                 for files, why in LIMITS.items()],
             "command": ["tests/kernels/cuda/sanitize.py", *sys.argv[1:]],
             "compute_sanitizer": sections}, indent=1))
    wrong = ("found", "failed", "not_done")
    return 1 if any(s[key] for s in sections for key in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
