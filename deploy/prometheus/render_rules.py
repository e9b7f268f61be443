#!/usr/bin/python3
"""Writes the rules with other times, or with links to a place of yours.

  render_rules.py OUT [--scale X] [--runbooks URL]

--scale 0.01 makes "for: 10m" 6 s, and [5m] in an expression 3 s: tests fire in
seconds what fires in minutes. Rates need two scrapes within their window: no
window becomes shorter than --shortest-window seconds. --runbooks is written
before every runbook_url.
"""

import argparse
import pathlib
import re

import yaml

FILES = pathlib.Path(__file__).parent.parent / "helm" / "bole" / "files"
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = r"(\d+)(ms|s|m|h|d)"


def seconds_of(text):
    found = re.fullmatch(DURATION, text)
    if not found:
        raise ValueError(f"{text!r} is no duration of one unit, such as 5m")
    return int(found[1]) * SECONDS[found[2]]


def scaled(text, scale, shortest=0):
    return f"{round(1000 * max(shortest, scale * seconds_of(text)))}ms"


def render(rule, scale, shortest_window, runbooks):
    """Changes one rule as it was read from its file."""
    rule["expr"] = re.sub(
        rf"\[({DURATION})\]",
        lambda found: f"[{scaled(found[1], scale, shortest_window)}]",
        rule["expr"])
    if "for" in rule:
        rule["for"] = scaled(rule["for"], scale)
    annotations = rule.get("annotations", {})
    if runbooks and "runbook_url" in annotations:
        annotations["runbook_url"] = (
            f"{runbooks.rstrip('/')}/{annotations['runbook_url']}")


def render_files(out, scale=1, shortest_window=0, runbooks=""):
    """Writes every file of rules to the folder `out`; returns their paths."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ["rules.yaml", "alerts.yaml"]:
        rules = yaml.safe_load((FILES / name).read_text(encoding="utf-8"))
        for group in rules["groups"]:
            for rule in group["rules"]:
                render(rule, scale, shortest_window, runbooks)
        written.append(out / name)
        written[-1].write_text(
            yaml.safe_dump(rules, sort_keys=False, width=1000),
            encoding="utf-8")
    return written


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", help="folder for the files")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--shortest-window", type=float, default=0)
    parser.add_argument("--runbooks", default="")
    options = parser.parse_args()
    if options.scale <= 0:
        parser.error(f"--scale {options.scale}: it has to be above 0")
    for path in render_files(options.out, options.scale,
                             options.shortest_window, options.runbooks):
        print(path)


if __name__ == "__main__":
    main()
