#!/usr/bin/env python3
"""What is kept of a test program's run.

Usage: gtest_report.py OUT GPU COMMIT IN...

Each IN was written by --gtest_output=json:IN, by one of the processes that had
the tests between them. OUT gets how many tests passed, failed and were skipped,
the names of those that did not pass, and the properties that tests recorded.
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


def tests_of(runs):
    return [(f"{suite['name']}.{test['name']}", test)
            for run in runs for suite in run["testsuites"]
            for test in suite["testsuite"]
            if test["status"] == "RUN"]


def report_of(runs, gpu, commit):
    outcome = {"passed": [], "failed": [], "skipped": []}
    properties = {}
    for name, test in tests_of(runs):
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


def main(target, gpu, commit, *sources):
    runs = [json.loads(pathlib.Path(source).read_text()) for source in sources]
    report = report_of(runs, gpu, commit)
    pathlib.Path(target).write_text(json.dumps(report, indent=1))
    return 1 if report["failed"] or not report["tests"] else 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
