#!/usr/bin/env python3
"""The table of deploy/prometheus/METRICS.md, made of what the services export.

  metrics_table.py SERVICE=URL...

prints it for the given services: scheduler=http://127.0.0.1:9401/metrics
worker=http://127.0.0.1:9402/metrics. A scheduler exports everything with
--vllm-metric-names, --tokens, TLS and --share.
"""

import re
import sys
import urllib.request

SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SUFFIXES = ("_bucket", "_sum", "_count")


def families_of(page):
    """{name: (type, labels, help)} of a scrape."""
    kinds, helps, labels = {}, {}, {}
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name, text = line.removeprefix("# HELP ").split(" ", 1)
            helps[name] = text
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            kinds[name] = kind
        elif found := SAMPLE.match(line):
            name = found[1]
            for suffix in SUFFIXES:
                if name not in kinds and name.endswith(suffix):
                    name = name.removesuffix(suffix)
            labels.setdefault(name, set()).update(
                label for label, _ in LABEL.findall(found[2] or ""))
    if set(kinds) - set(labels):
        raise ValueError(f"without a series: {set(kinds) - set(labels)}")
    return {name: (kind, tuple(sorted(labels[name] - {"le"})), helps[name])
            for name, kind in kinds.items()}


def rows_of(service, page):
    return [f"| `{name}` | {service} | {kind} | {', '.join(labels)} | {about} |"
            for name, (kind, labels, about) in families_of(page).items()]


def table(pages):
    """The lines of the table. `pages`: {service: scrape}."""
    rows = [row for service, page in pages.items()
            for row in rows_of(service, page)]
    return ["| name | service | type | labels | what |",
            "|---|---|---|---|---|", *sorted(rows)]


def main():
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    pages = {}
    for argument in sys.argv[1:]:
        service, url = argument.split("=", 1)
        with urllib.request.urlopen(url, timeout=10) as response:
            pages[service] = response.read().decode()
    print("\n".join(table(pages)))


if __name__ == "__main__":
    main()
