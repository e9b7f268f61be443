#!/usr/bin/python3
"""Draws every panel of the dashboards from the data of a Prometheus, as SVG: what
Grafana would show, for readers without one.

  draw.py PROMETHEUS OUT [--minutes M] [--interval I]

PROMETHEUS is its address, "http://127.0.0.1:9090"; OUT a folder, which gets a
picture for each dashboard. I stands for $__rate_interval, in seconds.
"""

import argparse
import json
import math
import pathlib
import re
import time
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use("svg")
# Texts stay texts, and equal data make equal files.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bole",
                            "font.size": 8, "axes.titlesize": 9,
                            "path.simplify_threshold": 0.5})
from matplotlib import pyplot  # noqa: E402

DASHBOARDS = (pathlib.Path(__file__).parent.parent / "helm" / "bole" /
              "files" / "dashboards")
MAX_POINTS = 60
MAX_LINES = 12


def dashboards():
    """The dashboards, each as it is in its file."""
    return [json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(DASHBOARDS.glob("*.json"))]


def graphs(dashboard):
    return [one for one in dashboard["panels"] if one["type"] != "row"]


def query_of(target, interval):
    """What Grafana asks with every variable at "All"."""
    query = target["expr"].replace("$__rate_interval", f"{interval:g}s")
    return re.sub(r"\$(namespace|model)\b", ".*", query)


def legend_of(target, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""),
                  target["legendFormat"]).strip()


def ask(address, path, **parameters):
    """`data` of an answer of Prometheus' API."""
    url = f"{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=30) as response:
        answer = json.load(response)
    if answer["status"] != "success":
        raise RuntimeError(f"{url}: {answer}")
    return answer["data"]


def lines_of(address, panel, start, end, interval):
    """[(legend, [(seconds since `start`, value)])] of all queries."""
    lines = []
    for target in panel["targets"]:
        data = ask(address, "query_range", query=query_of(target, interval),
                   start=start, end=end,
                   step=max(1, math.ceil((end - start) / MAX_POINTS)))
        for series in data["result"]:
            points = [(at - start, float(value))
                      for at, value in series["values"]]
            lines.append((legend_of(target, series["metric"]), points))
    return lines


def draw_panel(axes, panel, lines):
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    # Those that say most, where there are many.
    lines = sorted(lines, key=lambda line: -sum(
        value for _, value in line[1] if math.isfinite(value)))[:MAX_LINES]
    if stacked and lines:
        times = sorted({at for _, points in lines for at, _ in points})
        values = [[dict(points).get(at, 0) for at in times]
                  for _, points in lines]
        axes.stackplot(times, values, labels=[name for name, _ in lines],
                       alpha=0.7, linewidth=0)
    else:
        for name, points in lines:
            axes.plot([at for at, _ in points],
                      [value for _, value in points], label=name, linewidth=1)
    axes.set_title(panel["title"])
    axes.set_ylabel(defaults["unit"].replace("suffix:", "").strip())
    axes.set_xlabel("s")
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.locator_params(nbins=4)
    if lines:
        axes.legend(fontsize=6, loc="upper left", framealpha=0.6)


def draw(address, out, minutes, interval):
    """Draws the last minutes. Returns the pictures' paths."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    end = time.time()
    start = end - 60 * minutes
    drawn = []
    for dashboard in dashboards():
        panels = graphs(dashboard)
        rows = math.ceil(len(panels) / 2)
        figure, grid = pyplot.subplots(rows, 2, figsize=(11, 2.6 * rows),
                                       squeeze=False)
        for axes in grid.flat[len(panels):]:
            axes.axis("off")
        for axes, panel in zip(grid.flat, panels):
            draw_panel(axes, panel,
                       lines_of(address, panel, start, end, interval))
        figure.suptitle(dashboard["title"])
        figure.tight_layout(rect=(0, 0, 1, 0.98))
        drawn.append(out / f"{dashboard['uid']}.svg")
        figure.savefig(drawn[-1], metadata={"Date": None})
        pyplot.close(figure)
    return drawn


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("prometheus")
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--interval", type=float, default=60)
    options = parser.parse_args()
    for path in draw(options.prometheus.rstrip("/"), options.out,
                     options.minutes, options.interval):
        print(path)


if __name__ == "__main__":
    main()
