#!/usr/bin/env python3
"""Counts the test cases of a Bazel run and names those that failed.

Usage: summarize.py EVENTS.json STATUS

EVENTS.json is what --build_event_json_file wrote, STATUS is Bazel's exit
status. A GoogleTest case counts as
one, skipped if it called GTEST_SKIP() or is disabled. Any other test target
counts as one case; so does a target that did not build, crashed or timed out,
and a run that failed for any other reason.

The last line printed is "N passed, N failed, N skipped". Exits with 1 if a case
failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as xml


class Tally:
    """Counts, and what to tell about each failure."""

    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skipped = 0

    def fail(self, name, log):
        self.failures.append((name, log))


def read_events(path):
    """Returns ({(label, shard, run): result}, [labels that did not build])."""
    results, broken = {}, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            key = event["id"].get("testResult")
            if key and "testResult" in event:
                # Attempts come in order; the last one decides.
                at = (key["label"], key.get("shard", 0), key.get("run", 0))
                results[at] = event["testResult"]
            done = event["id"].get("targetCompleted")
            if done and not event.get("completed", {}).get("success"):
                broken.append(done["label"])
    return results, sorted(set(broken))


def local_path(result, name):
    """The path of a test's output file, or None."""
    for output in result.get("testActionOutput", []):
        if output["name"] == name:
            return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
    return None


def cases_of(xml_path):
    """Yields (name, outcome) of each case of a test.xml; none if unreadable."""
    try:
        root = xml.parse(xml_path).getroot()
    except (OSError, TypeError, xml.ParseError):
        return
    for case in root.iter("testcase"):
        suite = case.get("classname")
        name = f"{suite}.{case.get('name')}" if suite else case.get("name")
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            yield name, "skipped"
        else:
            yield name, "passed"


def count_target(label, result, tally):
    """Adds one test target, or one shard of it, to the tally."""
    log = local_path(result, "test.log")
    ok = result.get("status") in ("PASSED", "FLAKY")
    failed_here = 0
    seen = 0
    for name, outcome in cases_of(local_path(result, "test.xml")):
        seen += 1
        if outcome == "failed":
            failed_here += 1
            tally.fail(f"{label} {name}", log)
        elif outcome == "skipped":
            tally.skipped += 1
        else:
            tally.passed += 1
    if not ok and failed_here == 0:
        tally.fail(f"{label} ({result.get('status', 'no status')})", log)
    elif ok and seen == 0:
        tally.passed += 1


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    results, broken = read_events(sys.argv[1])
    tally = Tally()
    for (label, _, _), result in sorted(results.items()):
        count_target(label, result, tally)
    for label in broken:
        if not any(key[0] == label for key in results):
            tally.fail(f"{label} (did not build)", None)
    if sys.argv[2] != "0" and not tally.failures:
        tally.fail(f"the run itself: Bazel exited with {sys.argv[2]}", None)
    for name, log in tally.failures:
        print(f"FAILED {name}" + (f"\n       {log}" if log else ""))
    print(
        f"{tally.passed} passed, {len(tally.failures)} failed, "
        f"{tally.skipped} skipped"
    )
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
