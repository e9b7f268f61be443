#!/usr/bin/env python3
"""What measure.py measured, as a table and a picture.

    tests/bench/policies/summarize.py OUT... --markdown FILE --svg FILE

OUT are folders of measure.py; lines of several runs add up. For each model and
number of requests: the median tokens per second of every setting, the best of
the fixed ones in bold, and how many times as fast as the best fixed setting and
as plain decoding `goodput` is, as the median over repetitions, each compared
within itself. Where all sessions begin together and none follow them, drafts
that are accepted unevenly leave the last requests alone, which tokens per
second of the whole count and the median time per token does not: "token" is the
best fixed setting's by that, over that of `goodput`. The spread is
(max - min) / median. Exits with 1 if --at-least is
given and a ratio to the best is below it, or one to plain decoding below
--at-least-plain.
"""

import collections
import math
import statistics
import sys

sys.dont_write_bytecode = True

import statistics_of_pairs as pairs
from pages import page_parser, picture_of, publish, rows_of, text

COLORS = ["#1b4f9c", "#d9652b", "#3c8d40", "#8c3a8f", "#777777", "#c9a227",
          "#008b8b", "#b3134f", "#5a4a1f", "#000000"]


def read(folders):
    """{(device, model, requests): {setting: {repetition: row}}}"""
    groups = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows_of(folders, "measurements"):
        of = (row["device"], row["model"], row["requests"])
        groups[of][row["setting"]][row["repetition"]] = row
    return groups


def rate(rows):
    return statistics.median(row["tokens_per_second"] for row in rows.values())


def best_fixed(by_setting):
    """The fixed setting with the highest median; None if there is none."""
    fixed = [name for name in by_setting if name != "goodput"]
    return max(fixed, key=lambda name: rate(by_setting[name]), default=None)


def ratio(by_setting, name, to):
    """The median over repetitions that have both; None without any."""
    mine, other = by_setting.get(name, {}), by_setting.get(to, {})
    ratios = [mine[i]["tokens_per_second"] / other[i]["tokens_per_second"]
              for i in mine if i in other]
    return statistics.median(ratios) if ratios else None


def by_token(by_setting):
    """The best fixed setting's median time per token over that of goodput."""
    times = {name: statistics.median(row["tpot_p50"] for row in rows.values())
             for name, rows in by_setting.items()}
    mine = times.pop("goodput", None)
    return min(times.values()) / mine if mine and times else None


def chosen(rows):
    """What a policy verified: shares of rounds, and nodes a request and round."""
    totals = collections.Counter()
    for row in rows.values():
        counts = row["speculation"]
        for key in ("off_rounds", "chain_rounds", "tree_rounds",
                    "selected_nodes"):
            totals[key] += counts[key]
    rounds = sum(totals[f"{kind}_rounds"] for kind in ("off", "chain", "tree"))
    if rounds == 0:
        return "-"
    shares = [f"{kind} {100 * totals[f'{kind}_rounds'] / rounds:.0f} %"
              for kind in ("off", "chain", "tree")
              if totals[f"{kind}_rounds"] > 0]
    return f"{', '.join(shares)}; {totals['selected_nodes'] / rounds:.1f} nodes"


def two(number):
    return "-" if number is None else f"{number:.3f}"


def markdown(groups, names):
    lines = []
    for device, model in dict.fromkeys(of[:2] for of in groups):
        lines += [f"### {model}, {device}", "",
                  "| requests | " + " | ".join(names) +
                  " | goodput / best | token | goodput / plain | spread | chosen |",
                  "|---" * (len(names) + 6) + "|"]
        for of in sorted(groups):
            if of[:2] != (device, model):
                continue
            lines.append(row_of(of[2], groups[of], names))
        lines.append("")
    return "\n".join(lines)


def row_of(requests, by_setting, names):
    best = best_fixed(by_setting)
    cells = []
    for name in names:
        rows = by_setting.get(name)
        cell = f"{rate(rows):.0f}" if rows else "-"
        cells.append(f"**{cell}**" if name == best else cell)
    widest = max(pairs.spread([row["tokens_per_second"]
                               for row in rows.values()])
                 for rows in by_setting.values())
    policy = by_setting.get("goodput", {})
    cells += [two(ratio(by_setting, "goodput", best)),
              two(by_token(by_setting)),
              two(ratio(by_setting, "goodput", "plain")),
              f"{100 * widest:.1f} %", chosen(policy)]
    return f"| {requests} | " + " | ".join(cells) + " |"


def chart(title, series, top):
    """Times plain decoding over requests, {setting: {requests: ratio}}."""
    width, height, left, right, above, below = 820, 300, 70, 150, 40, 46
    xs = sorted({x for points in series.values() for x in points})
    highest = max(y for points in series.values() for y in points.values())
    span = math.log(xs[-1] / xs[0]) or 1

    def x_of(x):
        return left + math.log(x / xs[0]) / span * (width - left - right)

    def y_of(y):
        return top + height - below - y / highest * (height - above - below)

    svg = text(left, top + above - 14, "start",
               f"{title} (times plain decoding)")
    for x in xs:
        svg += text(x_of(x), top + height - below + 16, "middle", str(x))
    svg += text((left + width - right) / 2, top + height - 10, "middle",
                "requests at once")
    step = 1 if highest <= 8 else 2
    for y in range(0, int(highest) + 1, step):
        svg += (f'<line x1="{left}" y1="{y_of(y):.1f}" x2="{width - right}" '
                f'y2="{y_of(y):.1f}" stroke="#d0d0d0"/>\n')
        svg += text(left - 6, y_of(y) + 4, "end", str(y))
    for i, (name, points) in enumerate(series.items()):
        color = COLORS[i % len(COLORS)]
        line = " ".join(f"{x_of(x):.1f},{y_of(points[x]):.1f}"
                        for x in sorted(points))
        wide = 3 if name == "goodput" else 1.4
        svg += (f'<polyline fill="none" stroke="{color}" '
                f'stroke-width="{wide}" points="{line}"/>\n')
        y = top + above + 14 + 18 * i
        svg += (f'<rect x="{width - right + 12}" y="{y - 9}" width="10" '
                f'height="10" fill="{color}"/>\n')
        svg += text(width - right + 28, y, "start", name)
    return svg


def picture(groups, names):
    kinds = list(dict.fromkeys(of[:2] for of in groups))
    body = ""
    for i, (device, model) in enumerate(kinds):
        series = {}
        for name in names:
            points = {of[2]: ratio(groups[of], name, "plain")
                      for of in sorted(groups) if of[:2] == (device, model)}
            points = {x: y for x, y in points.items() if y is not None}
            if points:
                series[name] = points
        if series:
            body += chart(f"{model}, {device}", series, 300 * i)
    return picture_of(820, 300 * len(kinds), 12, body)


def main():
    parser = page_parser(__doc__)
    parser.add_argument("--at-least", type=float,
                        help="of goodput / best fixed setting")
    parser.add_argument("--at-least-plain", type=float,
                        help="of goodput / plain decoding")
    options = parser.parse_args()
    groups = read(options.out)
    if not groups:
        print("there are no measurements", file=sys.stderr)
        return 1
    names = list(dict.fromkeys(name for of in sorted(groups)
                               for name in groups[of]))
    names.sort(key=lambda name: (name == "goodput", name.split()[0] != "plain",
                                 name.split()[0], int(name.split()[-1])
                                 if " " in name else 0))
    publish(options, markdown(groups, names), lambda: picture(groups, names))
    missed = 0
    for of, by_setting in sorted(groups.items()):
        for to, bound in ((best_fixed(by_setting), options.at_least),
                          ("plain", options.at_least_plain)):
            reached = ratio(by_setting, "goodput", to)
            if bound and reached is not None and reached < bound:
                print(f"{of}: goodput / {to} is {reached:.3f}, below {bound}",
                      file=sys.stderr)
                missed += 1
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
