#!/usr/bin/env python3
"""compute-sanitizer over every test of a program, on a machine with a GPU.

    deploy/bundle.sh BUNDLE //tests/kernels/cuda:operators_test
    # copy the folder and the source tree, then there:
    LD_LIBRARY_PATH=BUNDLE/lib tests/kernels/cuda/sanitize.py \\
        BUNDLE/bin/operators_test --json sanitize.json

Runs racecheck and memcheck, several processes at a time. Each runs one test, or
some that an earlier run knows to be short: the tool takes seconds to start. Its
work is on the CPU: the more cores, the faster. Under racecheck BOLE_FEWER_CASES
is set, so that tests leave out repetitions (EveryNth in cuda_test.h). Exits
with 1 if a tool finds something, a test fails, or one is not done. FILE has
what is known at any time: the tests, what was found in which, and how long each
took.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

# "========= ERROR SUMMARY: 0 errors", "========= RACECHECK SUMMARY: 0 hazards
# displayed (0 errors, 0 warnings)"
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)",
                     re.MULTILINE)
FINDING = re.compile(r"^=+ +((?:Error|Warning|Invalid|Race).*)$", re.MULTILINE)
# The first and the last line that gtest prints for a test.
BEGIN = re.compile(r"^\[ RUN      \] (\S+)$", re.MULTILINE)
END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?(?: .*)?\((\d+) ms\)$",
                 re.MULTILINE)
PLACE = re.compile(r"^=+ +(.* in \S+\.(?:cu|cuh|h):\d+)", re.MULTILINE)
# Everything that varies from run to run. Lines of files (group 1) are kept.
VARIES = re.compile(r"(\.(?:cu|cuh|h):\d+)|0x[0-9a-f]+|\(\d+,\d+,\d+\)|\d+")

# By tool. racecheck gets one thread in each process, because the processes
# together keep every core busy. Calls of CUDA that fail are no findings: the
# code looks at each result, and tests want some to fail.
ARGUMENTS = {"racecheck": ["--racecheck-num-workers", "1"],
             "memcheck": ["--report-api-errors", "no"]}
# With more processes, each of them waits for the GPU: 28 processes ran 152
# tests in 118 s, 54 ran only 99 in 123 s.
MOST_JOBS = 28
# Tests that took at most this long may share a process, up to this long in all.
SHORT_SECONDS = 8
ENVIRONMENT = {"racecheck": {"BOLE_FEWER_CASES": "1"}}


class Processes:
    """Those that run, so that none outlives this one."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running = set()
        self._is_over = False

    def run(self, command, environment, seconds):
        """The exit status, or None if it was ended, and all it has printed."""
        with self._lock:
            if self._is_over or seconds <= 0:
                return None, ""
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", start_new_session=True,
                env=os.environ | environment)
            self._running.add(process)
        try:
            output, _ = process.communicate(timeout=seconds)
            # A negative code is that of a signal, from here or from elsewhere.
            return (None if self._is_over else process.returncode), output
        except subprocess.TimeoutExpired:
            self._end(process)
            return None, process.communicate()[0]
        finally:
            with self._lock:
                self._running.discard(process)

    def end_all(self):
        with self._lock:
            self._is_over = True
            for process in self._running:
                self._end(process)

    @staticmethod
    def _end(process):
        """With its children: the tool starts the program."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


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
    """What is told, with the places in the source, and how often."""
    found = collections.Counter()
    for block in re.split(r"^=+ *$", output, flags=re.MULTILINE):
        first = FINDING.search(block)
        if first is None or "SUMMARY" in first[1]:
            continue
        lines = dict.fromkeys([first[1].strip(), *PLACE.findall(block)])
        # PLACE also finds the first line, cut off after its place.
        lines = [a for a in lines
                 if not any(a != b and b.startswith(a) for b in lines)]
        told = (VARIES.sub(lambda m: m[1] or "_", line) for line in lines)
        found["; ".join(dict.fromkeys(told))] += 1
    return found


def row_of(tool, test, output, is_over):
    """Of a test that was begun, by what was printed from its beginning to that
    of the next; its process has ended by itself if is_over."""
    ended = END.search(output)
    told = findings_of(output)
    row = {"tool": tool, "test": test, "found": sum(told.values())}
    if told:
        row["findings"] = dict(told)
    if not ended and not is_over:
        row["not_done"] = "was ended"
        return row
    row["seconds"] = int(ended[3]) / 1000 if ended else 0
    if not ended:
        row["error"] = "did not end: " + " | ".join(output.splitlines()[-3:])
    elif ended[1] == "SKIPPED":
        row["error"] = "skipped: the program found no GPU"
    elif ended[1] == "FAILED":
        row["error"] = "failed: " + " | ".join(output.splitlines()[1:4])
    return row


def rows_of(tool, tests, output, status):
    """A row for each test of a process, which was ended if status is None."""
    parts = BEGIN.split(output)
    of_test = dict(zip(parts[1::2], parts[2::2]))
    rows = [row_of(tool, test, of_test[test], status is not None)
            if test in of_test else
            {"tool": tool, "test": test, "found": 0, "not_done": "not begun"}
            for test in tests]
    if status is None:
        return rows
    # So that nothing gets lost, the rows are compared with the tool's own
    # counts, one for each program that a test starts, and with the exit status.
    counted = sum(map(int, SUMMARY.findall(output)))
    understood = sum(row["found"] for row in rows)
    is_known = any("error" in row for row in rows)
    if counted != understood or not SUMMARY.search(output):
        rows[-1]["error"] = f"{counted} found, {understood} understood"
    elif status != 0 and not is_known:
        rows[-1]["error"] = (f"ended with {status}: "
                             + " | ".join(output.splitlines()[-3:]))
    return rows


def check(tool, tests, options):
    """A row for each of the tests, by one process."""
    left = options.deadline - time.monotonic()
    status, output = options.processes.run(
        ["compute-sanitizer", "--tool", tool, "--show-backtrace", "no",
         "--print-limit", "1000", *ARGUMENTS.get(tool, []), options.program,
         f"--gtest_filter={':'.join(tests)}"],
        ENVIRONMENT.get(tool, {}), min(options.timeout, left))
    rows = rows_of(tool, tests, output, status)
    rest = [row["test"] for row in rows if "not_done" in row]
    if status is not None and 0 < len(rest) < len(tests):
        # A test before them ended the process.
        rows = ([row for row in rows if "not_done" not in row]
                + check(tool, rest, options))
    if options.logs and any("error" in row or row.get("findings")
                            for row in rows):
        name = re.sub(r"\W+", "_", f"{tool} {tests[0]}")
        (options.logs / f"{name}.log").write_text(output)
    return rows


def tell(row):
    """What is wrong with a test, as soon as it is known."""
    name = f"{row['tool']}: {row['test']}"
    for key in ("error", "not_done"):
        if key in row:
            print(f"  {name}: {row[key]}", flush=True)
    for what, count in row.get("findings", {}).items():
        print(f"  {name}: {count} x {what}", flush=True)


def section_of(tool, rows, tests):
    """Of the report."""
    of_test = {row["test"]: row for row in rows if row["tool"] == tool}
    rows = [of_test[test] for test in tests if test in of_test]
    done = [row for row in rows if "not_done" not in row]
    return {
        "tool": tool,
        "tests": len(done),
        "found": sum(row["found"] for row in rows),
        "failed": [row for row in rows if "error" in row],
        "not_done": [test for test in tests
                     if "not_done" in of_test.get(test, {"not_done": ""})],
        "findings": [row for row in rows if row.get("findings")],
        "seconds": {row["test"]: row["seconds"] for row in done
                    if "seconds" in row},
    }


def write(options, sections, seconds):
    """All at once, so that FILE is whole whenever it is read."""
    if not options.json:
        return
    unfinished = options.json.with_suffix(".part")
    unfinished.write_text(json.dumps(
        {"gpu": options.gpu, "commit": options.commit,
         "command": ["tests/kernels/cuda/sanitize.py", *sys.argv[1:]],
         "wall_seconds": round(seconds), "jobs": options.jobs,
         "resumed_commit": report_of(options.resume).get("commit"),
         "compute_sanitizer": sections}, indent=1))
    unfinished.replace(options.json)


def report_of(path):
    """What an earlier run wrote, if there is one."""
    return json.loads(path.read_text()) if path else {"compute_sanitizer": []}


def earlier_seconds(path):
    """Of each test by tool; what is not in it may take any time."""
    return {(s["tool"], test): seconds
            for s in report_of(path)["compute_sanitizer"]
            for test, seconds in s["seconds"].items()}


def rows_done(path):
    """Those of an earlier run's tests that were done, with nothing wrong."""
    rows = []
    for s in report_of(path)["compute_sanitizer"]:
        wrong = {row["test"] for row in s["failed"] + s["findings"]}
        rows += [{"tool": s["tool"], "test": test, "found": 0,
                  "seconds": seconds}
                 for test, seconds in s["seconds"].items() if test not in wrong]
    return rows


def tasks_of(tool, tests, options):
    """(seconds that are expected, tool, tests) for each process."""
    earlier = earlier_seconds(options.earlier)
    tasks = []
    together = []  # Short tests that share a process.
    total = 0
    for test in tests:
        seconds = earlier.get((tool, test), math.inf)
        if seconds > SHORT_SECONDS:
            tasks.append((seconds, tool, [test]))
            continue
        if total + seconds > SHORT_SECONDS:
            tasks.append((total, tool, together))
            together = []
            total = 0
        together.append(test)
        total += seconds
    return tasks + ([(total, tool, together)] if together else [])


def run(tools, tests, options):
    """The sections of the report."""
    begin = time.monotonic()
    options.deadline = begin + options.within
    before = [row for row in rows_done(options.resume)
              if row["tool"] in tools and row["test"] in tests]
    done = {(row["tool"], row["test"]) for row in before}
    left = {tool: [test for test in tests if (tool, test) not in done]
            for tool in tools}
    # The longest first, so that no core waits for the last.
    tasks = sorted((task for tool in tools
                    for task in tasks_of(tool, left[tool], options)),
                   key=lambda task: -task[0])
    rows = list(before)

    def report():
        sections = [section_of(tool, rows, tests) for tool in tools]
        write(options, sections, time.monotonic() - begin)
        return sections

    written = begin
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    running = []
    try:
        running += [pool.submit(check, tool, of_one, options)
                   for _, tool, of_one in tasks]
        for done in concurrent.futures.as_completed(running):
            rows += done.result()
            for row in done.result():
                tell(row)
            if time.monotonic() > written + 2:
                report()
                written = time.monotonic()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        options.processes.end_all()
        pool.shutdown(cancel_futures=True)
    rows[:] = before + [row for one in running if not one.cancelled()
                        for row in one.result()]
    sections = report()
    for s in sections:
        slowest = sorted(s["seconds"].items(), key=lambda of: -of[1])[:3]
        print(f"{s['tool']}: {s['tests']} tests done, {s['found']} found, "
              f"{len(s['failed'])} failed, {len(s['not_done'])} not done; "
              f"the slowest: {slowest}", flush=True)
    print(f"{time.monotonic() - begin:.0f} s", flush=True)
    return sections


def interrupt(*_):
    """Once: what follows is needed to end what runs and to report."""
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--tools", default="racecheck,memcheck",
                        help="of compute-sanitizer, with commas between")
    parser.add_argument("--tests", default="*", help="as --gtest_filter")
    parser.add_argument("--shard", default="0/1", metavar="I/N",
                        help="every Nth test, from the Ith")
    parser.add_argument("--jobs", type=int,
                        default=min(MOST_JOBS, os.cpu_count()),
                        help="at a time")
    parser.add_argument("--timeout", type=int, default=300,
                        help="seconds that a process may take")
    parser.add_argument("--within", type=int, default=3600,
                        help="seconds that all may take; what runs is ended")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--earlier", metavar="FILE", type=pathlib.Path,
                        help="of an earlier run: its longest tests begin first"
                             ",\nand short ones share processes")
    parser.add_argument("--resume", metavar="FILE", type=pathlib.Path,
                        help="of an earlier run, which goes on: tests that it "
                             "has done are\nkept, but for those with which "
                             "something was wrong")
    parser.add_argument("--logs", metavar="FOLDER", type=pathlib.Path,
                        help="for all that is printed where something is wrong")
    parser.add_argument("--gpu", help="told in FILE")
    parser.add_argument("--commit", help="told in FILE")
    options = parser.parse_args()
    if not shutil.which("compute-sanitizer"):
        sys.exit("there is no compute-sanitizer on PATH")
    options.processes = Processes()
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, interrupt)
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    index, count = map(int, options.shard.split("/"))
    tests = tests_of(options.program, options.tests)[index::count]
    if not tests:
        sys.exit(f"no test of {options.program} matches {options.tests}")
    sections = run(options.tools.split(","), tests, options)
    wrong = ("found", "failed", "not_done")
    return 1 if any(s[key] for s in sections for key in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
