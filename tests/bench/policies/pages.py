"""What programs share that make a table and a picture of measurements."""

import argparse
import html
import json
import pathlib


def rows_of(folders, kind):
    """The lines of KIND-*.jsonl (campaign.py), folder by folder."""
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob(f"{kind}-*.jsonl")):
            for line in path.read_text().splitlines():
                yield json.loads(line)


def text(x, y, anchor, content):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{html.escape(content)}</text>\n")


def picture_of(width, height, font_size, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" font-family="sans-serif" '
            f'font-size="{font_size}">\n<rect width="100%" height="100%" '
            f'fill="white"/>\n{body}</svg>\n')


def page_parser(description):
    """Of a program that makes a page of folders."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", metavar="OUT", nargs="+")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--svg", metavar="FILE")
    return parser


def publish(options, page, picture):
    """Prints the page, and writes what was asked for; picture() draws it."""
    print(page)
    if options.markdown:
        pathlib.Path(options.markdown).write_text(page)
    if options.svg:
        pathlib.Path(options.svg).write_text(picture())
