#!/usr/bin/env python3
"""What is kept of a test program's run.

Usage: gtest_report.py IN OUT GPU COMMIT

IN was written by --gtest_output=json:IN. OUT gets how many tests passed, failed
and were skipped, the names of those that did not pass, and the properties that
tests recorded.
"""

import json
import pathlib
import sys

# What gtest itself tells of a test.
FIELDS = {"name", "value_param", "type_param", "file", "line", "status", "result",
          "timestamp", "time", "classname", "failures"}


def value_of(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def report_of(run, gpu, commit):
    outcome = {"passed": [], "failed": [], "skipped": []}
    properties = {}
    for suite in run["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            skipped = test["result"] == "SKIPPED"
            outcome["skipped" if skipped else
                    "failed" if "failures" in test else "passed"].append(name)
            told = {key: value_of(text) for key, text in test.items()
                    if key not in FIELDS}
            if told:
                properties[name] = told
    return {"gpu": gpu, "commit": commit, "passed": len(outcome["passed"]),
            "failed": outcome["failed"], "skipped": outcome["skipped"],
            "tests": outcome["passed"], "properties": properties}


def main(source, target, gpu, commit):
    run = json.loads(pathlib.Path(source).read_text())
    report = report_of(run, gpu, commit)
    pathlib.Path(target).write_text(json.dumps(report, indent=1))
    return 1 if report["failed"] or not report["tests"] else 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
