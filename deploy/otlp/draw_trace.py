#!/usr/bin/python3
"""Draws one trace of a file of OTLP's JSON, a body on each line."""

import argparse
import html
import json

COLORS = {"generate": "#777777", "admission": "#c9a227", "queue": "#d9652b",
          "prefill": "#1b4f9c", "rounds": "#3c8d40", "delivery": "#8c3a8f",
          "worker.prefill": "#6f94cf", "worker.rounds": "#86bd88"}
ROW = 26
LEFT = 160
WIDTH = 700


def spans_of(body):
    """Every span of an ExportTraceServiceRequest."""
    return [span for resource in body["resourceSpans"]
            for scope in resource["scopeSpans"] for span in scope["spans"]]


def start(span):
    return int(span["startTimeUnixNano"])


def end(span):
    return int(span["endTimeUnixNano"])


def attributes(span):
    """As text: "rounds=3 tokens=12"."""
    return " ".join(
        f"{a['key'].removeprefix('bole.')}={next(iter(a['value'].values()))}"
        for a in span.get("attributes", []))


def in_order(spans):
    """(depth, span), children after their parents, by their starts."""
    known = {span["spanId"] for span in spans}
    children = {}
    for span in sorted(spans, key=start):
        parent = span.get("parentSpanId")
        children.setdefault(parent if parent in known else None, []).append(
            span)
    rows = []

    def visit(parent, depth):
        for span in children.get(parent, []):
            rows.append((depth, span))
            visit(span["spanId"], depth + 1)

    visit(None, 0)
    return rows


def as_text(rows):
    first = min(start(span) for _, span in rows)
    return "".join(
        f"{'  ' * depth + span['name']:<19}"
        f"{(start(span) - first) / 1e6:10.3f} ms"
        f" +{(end(span) - start(span)) / 1e6:10.3f} ms  {attributes(span)}\n"
        for depth, span in rows)


def as_svg(rows):
    first = min(start(span) for _, span in rows)
    length = max(max(end(span) for _, span in rows) - first, 1)
    parts = []
    for i, (depth, span) in enumerate(rows):
        y = 40 + i * ROW
        x = LEFT + WIDTH * (start(span) - first) / length
        width = max(WIDTH * (end(span) - start(span)) / length, 1)
        took = (end(span) - start(span)) / 1e6
        label = html.escape(f"{took:.3f} ms {attributes(span)}")
        parts.append(
            f'<text x="{10 + 12 * depth}" y="{y + 14}">'
            f'{html.escape(span["name"])}</text>\n'
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="18" '
            f'fill="{COLORS.get(span["name"], "#008b8b")}" '
            f'fill-opacity="0.6"><title>{label}</title></rect>\n'
            f'<text x="{min(x, LEFT + WIDTH / 2) + 4:.1f}" y="{y + 14}" '
            f'font-size="10">{label}</text>\n')
    height = 50 + ROW * len(rows)
    trace = html.escape(rows[0][1]["traceId"])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'width="{LEFT + WIDTH + 20}" height="{height}" '
            f'font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="10" y="24">trace {trace}, {length / 1e6:.3f} ms</text>\n'
            + "".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--trace", help="its id; the last one if left out")
    parser.add_argument("--svg", help="file to draw into")
    args = parser.parse_args()
    with open(args.file, encoding="utf-8") as file:
        spans = [span for line in file for span in spans_of(json.loads(line))]
    if not spans:
        parser.error(f"{args.file} has no spans")
    trace = args.trace or max(spans, key=start)["traceId"]
    rows = in_order([span for span in spans if span["traceId"] == trace])
    if not rows:
        parser.error(f"{args.file} has no trace {trace}")
    print(as_text(rows), end="")
    if args.svg:
        with open(args.svg, "w", encoding="utf-8") as out:
            out.write(as_svg(rows))


if __name__ == "__main__":
    main()
