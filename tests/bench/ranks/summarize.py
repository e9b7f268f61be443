#!/usr/bin/env python3
"""What measure.py measured of ranks, as tables and a picture.

    tests/bench/ranks/summarize.py OUT... --markdown FILE --svg FILE

OUT are folders of measure.py; lines of several runs add up, and of two lines of
the same measurement the last counts. Targets are beside what they are for.
"""

import collections
import sys

sys.dont_write_bytecode = True
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "policies"))

from pages import page_parser, picture_of, publish, rows_of, text

COLORS = {1: "#777777", 2: "#1b4f9c", 4: "#d9652b"}
# Milliseconds of a plain step or of one request's tree, by ranks, model and
# rows.
TARGETS = {2: {"9B": {1: 2.4, 64: 2.9}, "27B": {1: 6.9, 64: 7.9, 128: 9.3},
               "35B-A3B": {1: 1.4, 16: 4.6, 64: 8.7},
               "122B-A10B": {1: 3.0, 16: 14, 64: 29}},
           4: {"27B": {1: 3.9},
               "122B-A10B": {1: 1.8, 16: 7.5, 64: 14.5, 1024: 21}},
           1: {"35B-A3B": {1: 1.9, 16: 8.2, 64: 16}}}


def read(folders):
    """{what: {(model, accept, ranks, collectives): measured}}"""
    found = collections.defaultdict(dict)
    for row in rows_of(folders, "ranks"):
        key = (row["model"], row["accept"], row["ranks"], row["collectives"])
        found[row["what"]][key] = row["measured"]
    return found


def table(header, rows):
    return "\n".join(["| " + " | ".join(header) + " |",
                      "|---" * len(header) + "|"] +
                     ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def sums_page(sums):
    rows = [row for measured in sums.values() for row in measured]
    kinds = sorted({(row["ranks"], row["kind"]) for row in rows})
    cells = collections.defaultdict(dict)
    for row in rows:
        of = (row["what"], row["width"], row["rows"])
        cells[of][row["ranks"], row["kind"]] = row["us"]
    return table(["what", "width", "rows"] +
                 [f"{ranks} ranks, {kind}, µs" for ranks, kind in kinds],
                 [[what, str(width), str(count)] +
                  [f"{by[kind]:.1f}" if kind in by else "-" for kind in kinds]
                  for (what, width, count), by in sorted(cells.items())])


def steps_of(measured):
    """{(mode, requests, nodes): milliseconds} of forwards."""
    return {(row["mode"], row["batch"], row["nodes"]): row["forward_ms"]
            for row in measured}


def shape(mode, requests, nodes):
    return f"{requests} x {nodes}" if mode != "plain" else f"{requests} plain"


def name_of(ranks):
    return f"{ranks} rank{'s' * (ranks > 1)}"


def steps_page(steps):
    page = []
    for model in dict.fromkeys(key[0] for key in steps):
        by_ranks = {(key[2], key[3] == "nccl"): steps_of(measured)
                    for key, measured in steps.items() if key[0] == model}
        least = min(by_ranks)
        rows = []
        for of in sorted({of for one in by_ranks.values() for of in one},
                         key=lambda of: (of[1] * of[2], of[0])):
            cells = [shape(*of)]
            for (ranks, by_nccl), one in sorted(by_ranks.items()):
                cell = f"{one[of]:.3f}" if of in one else "-"
                base = by_ranks[least].get(of)
                if ranks > least[0] and of in one and base:
                    cell += f" (x {base / one[of]:.2f})"
                target = TARGETS.get(ranks, {}).get(model, {}).get(
                    of[1] * of[2]) if of[0] == "plain" or of[1] == 1 else None
                if target and of in one and not by_nccl:
                    cell += f", {'met' if one[of] <= target else 'over'}: " \
                            f"{target:g}"
                cells.append(cell)
            rows.append(cells)
        page += [f"### {model}: a forward, ms", "",
                 table(["rows"] + [name_of(ranks) + ", NCCL" * by_nccl
                                   for ranks, by_nccl in sorted(by_ranks)],
                       rows)]
    return "\n".join(page)


def decode_page(decode):
    page = []
    for model, accept in dict.fromkeys(key[:2] for key in decode):
        by_ranks = {key[2]: {(row["batch"], row["mode"], row["depth"]): row
                             for row in measured if "tokens_per_second" in row}
                    for key, measured in decode.items()
                    if key[:2] == (model, accept)}
        rows = []
        for of in sorted({of for one in by_ranks.values() for of in one}):
            cells = [str(of[0]), of[1] + (f" {of[2]}" if of[1] == "chain"
                                          else "")]
            for ranks, one in sorted(by_ranks.items()):
                if of not in one:
                    cells.append("-")
                    continue
                speed = one[of]["tokens_per_second"]
                cell = f"{speed:.0f}"
                if "speed_up" in one[of]:
                    cell += f" (x {one[of]['speed_up']:.2f} plain)"
                first = by_ranks.get(1, {}).get(of)
                if ranks > 1 and first:
                    cell += f", x {speed / first['tokens_per_second']:.2f} " \
                            "one GPU"
                cells.append(cell)
            rows.append(cells)
        page += [f"### {model}, accept {accept}: offline decoding, tokens/s", "",
                 table(["requests", "mode"] +
                       [name_of(ranks)
                        for ranks in sorted(by_ranks)], rows)]
    return "\n".join(page)


def serve_page(serve):
    rows = []
    for (model, accept, ranks, _), measured in sorted(serve.items()):
        for row in measured:
            rates = row["rates"]
            rows.append([model, accept, str(ranks), str(row["requests"]),
                         row["policy"],
                         f"{rates['output_tokens_per_second']:.0f}",
                         f"{rates['mean_accepted_tokens']:.2f}"])
    return table(["model", "accept", "ranks", "requests", "policy", "tokens/s",
                  "accepted"], rows)


def ends_page(rounds, kills):
    rows = [[model, str(ranks), f"{measured['rounds']} rounds without a "
             f"difference in {measured['seconds']:.0f} s"]
            for (model, _, ranks, _), measured in sorted(rounds.items())]
    rows += [[model, str(ranks), f"a rank is {how}: " +
              (f"ended with {one['code']}" if "code" in one else "not ended") +
              f" after {one['seconds']:.2f} s: {' '.join(one['said'])}" + (
                  f"; {one['counts']['succeeded']} of "
                  f"{one['counts']['requests']} requests ended well"
                  if "counts" in one else "")]
             for (model, _, ranks, _), measured in sorted(kills.items())
             for how, one in measured.items()]
    return table(["model", "ranks", "what was seen"], rows)


def markdown(found):
    pages = [("sums", "Exchanges alone", sums_page),
             ("steps", "Steps", steps_page), ("decode", "Decoding", decode_page),
             ("serve", "Through both services", serve_page)]
    parts = [f"## {title}\n\n{page(found[what])}"
             for what, title, page in pages if found[what]]
    if found["rounds"] or found["kill"]:
        parts.append("## Long runs and losses\n\n" +
                     ends_page(found["rounds"], found["kill"]))
    return "\n".join(parts)


def picture(found):
    """Bars: the forwards of every model, by rows and ranks that push."""
    steps = {key: measured for key, measured in found["steps"].items()
             if key[3] == "push"}
    models = list(dict.fromkeys(key[0] for key in steps))
    left, row_height, width, top = 200, 15, 860, 50
    body, y = "", top
    for model in models:
        by_ranks = {key[2]: steps_of(measured)
                    for key, measured in sorted(steps.items())
                    if key[0] == model}
        shapes = sorted({of for one in by_ranks.values() for of in one},
                        key=lambda of: (of[1] * of[2], of[0]))
        longest = max(ms for one in by_ranks.values() for ms in one.values())
        body += text(20, y, "start", f"{model}: a forward, ms")
        y += 10
        for of in shapes:
            body += text(left - 10, y + 12, "end", shape(*of))
            for ranks, one in by_ranks.items():
                if of not in one:
                    continue
                length = one[of] / longest * (width - left - 120)
                body += (f'<rect x="{left}" y="{y + 2}" width="{length:.1f}" '
                         f'height="{row_height - 4}" '
                         f'fill="{COLORS.get(ranks, "#000000")}"/>\n')
                body += text(left + length + 5, y + 12, "start",
                             f"{one[of]:.2f}")
                y += row_height
            y += 4
        y += 26
    legend = "".join(
        f'<rect x="{20 + 120 * i}" y="14" width="12" height="12" '
        f'fill="{COLORS.get(ranks, "#000000")}"/>\n' +
        text(38 + 120 * i, 25, "start", name_of(ranks))
        for i, ranks in enumerate(sorted({key[2] for key in steps})))
    return picture_of(width, y, 12, legend + body)


def main():
    options = page_parser(__doc__).parse_args()
    found = read(options.out)
    publish(options, markdown(found), lambda: picture(found))


if __name__ == "__main__":
    main()
