#!/usr/bin/env python3
"""What measure.py measured, as a table and a picture, beside the paper's.

    tests/bench/online/summarize.py OUT... --markdown FILE --svg FILE

OUT are folders of measure.py. Every number is the median over repetitions; the
spread is that of the mean time to first token, (max - min) / median. Hits are
the share of prompt tokens that were not computed again. The step of a system
on the way to bole is its goodput over that of the snapshot tree, and what the
paper's ablation says of it (A100 with the 122B, GB10 with the 27B).
"""

import collections
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "policies"))

import statistics_of_pairs as pairs
from pages import page_parser, picture_of, publish, rows_of, text

ORDER = ["plain", "chain", "snapshot tree", "adaserve", "budget", "kernel",
         "bole"]
# Sec. VI of the paper: prefix hits, and throughput over the snapshot tree.
PAPER_HITS = {"plain": "89.8 / 93.3 %", "snapshot tree": "69.7 / 58.3 %",
              "adaserve": "69.3 / 59.8 %", "bole": "90.8 / 92.6 %"}
PAPER_STEPS = {"snapshot tree": "1 / 1", "budget": "1.05 / 1.11",
               "kernel": "1.21 / 1.30", "bole": "1.59 / 2.23"}
COLORS = {"mean": "#1b4f9c", "p50": "#3c8d40", "p99": "#d9652b"}


def read(folders):
    """{(device, model): {system: [row]}}"""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows_of(folders, "online"):
        groups[row["device"], row["model"]][row["system"]].append(row)
    return groups


def median(rows, value):
    return statistics.median(value(row) for row in rows)


def hits(row):
    counts = row["counts"]
    return counts["cached_tokens"] / max(counts["prompt_tokens"], 1)


def throughput(row):
    return row["rates"]["output_tokens_per_second"]


def ordered(systems):
    known = [name for name in ORDER if name in systems]
    return known + [name for name in systems if name not in ORDER]


def row_of(name, systems):
    rows = systems[name]
    cells = [name]
    for latency in ("ttft", "tpot"):
        cells += [f"{1e3 * median(rows, lambda row: row[latency][key]):.1f}"
                  for key in ("mean", "p50", "p99")]
    cells += [f"{100 * median(rows, hits):.1f} %", PAPER_HITS.get(name, "-"),
              f"{median(rows, throughput):.0f}",
              f"{median(rows, lambda row: row['rates']['attainment']):.3f}"]
    base = systems.get("snapshot tree")
    step = "-"
    if base:
        step = f"{median(rows, throughput) / median(base, throughput):.2f}"
    cells += [step, PAPER_STEPS.get(name, "-"),
              f"{median(rows, lambda row: row['rates']['mean_accepted_tokens']):.2f}",
              f"{100 * pairs.spread([row['ttft']['mean'] for row in rows]):.1f} %"]
    return "| " + " | ".join(cells) + " |"


HEADER = ["system", "TTFT mean", "p50", "p99", "TPOT mean", "p50", "p99",
          "hits", "paper's hits", "tokens/s", "attainment",
          "tokens/s over snapshot tree", "paper's", "mean accepted", "spread"]


def markdown(groups):
    lines = []
    for (device, model), systems in sorted(groups.items()):
        lines += [f"### {model}, {device} (milliseconds)", "",
                  "| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
        lines += [row_of(name, systems) for name in ordered(systems)]
        lines.append("")
    return "\n".join(lines)


def bars(title, latency, systems, left, top):
    """A group of bars for each system: mean, p50 and p99, from 0."""
    width, height, bar = 560, 220, 14
    highest = max(median(rows, lambda row: row[latency][key])
                  for rows in systems.values() for key in COLORS)
    svg = text(left, top + 14, "start", title)
    names = ordered(systems)
    for i, name in enumerate(names):
        x = left + i * width / len(names)
        for k, (key, color) in enumerate(COLORS.items()):
            value = median(systems[name], lambda row: row[latency][key])
            tall = value / highest * (height - 70)
            svg += (f'<rect x="{x + k * bar:.1f}" y="{top + height - 30 - tall:.1f}" '
                    f'width="{bar - 2}" height="{tall:.1f}" fill="{color}"/>\n')
            svg += (f'<text x="{x + k * bar + 6:.1f}" '
                    f'y="{top + height - 33 - tall:.1f}" font-size="8" '
                    f'text-anchor="middle">{1e3 * value:.0f}</text>\n')
        svg += text(x, top + height - 14, "start", name)
    return svg


def picture(groups):
    body = ""
    for i, ((device, model), systems) in enumerate(sorted(groups.items())):
        for k, (latency, name) in enumerate((("ttft", "time to first token"),
                                             ("tpot", "time per token"))):
            body += bars(f"{model}, {device}: {name} (ms)", latency, systems,
                         20 + 600 * k, 20 + 240 * i)
    legend = "".join(
        f'<rect x="{20 + 70 * i}" y="4" width="10" height="10" '
        f'fill="{color}"/>\n' + text(34 + 70 * i, 13, "start", key)
        for i, (key, color) in enumerate(COLORS.items()))
    return picture_of(1200, 20 + 240 * len(groups), 11, legend + body)


def main():
    options = page_parser(__doc__).parse_args()
    groups = read(options.out)
    if not groups:
        print("there are no measurements", file=sys.stderr)
        return 1
    publish(options, markdown(groups), lambda: picture(groups))
    return 0


if __name__ == "__main__":
    sys.exit(main())
