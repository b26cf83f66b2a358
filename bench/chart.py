#!/usr/bin/env python3
"""Draws the first table of a page of results as bars: chart.py RESULTS.md OUT.svg [--check]

The table's columns are a rule, milliseconds of clattn, of another implementation, and their ratio, which is the bar.
--check fails if OUT.svg is not what this draws. Needs nothing but Python.
"""
import pathlib
import sys
from xml.sax.saxutils import escape

LEFT, SCALE, ROW, BAR = 170, 90, 24, 14  # x of 0, width of a ratio of 1, height of a row and of a bar


def first_table(page):
    """Title, header and rows of cells: the rows are the lines after the line of dashes."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return lines[0].lstrip("# "), table[0], table[2:]


def text(x, y, content, extra=""):
    return f'<text x="{x:.0f}" y="{y:.0f}"{extra}>{escape(content)}</text>'


def draw(page):
    title, header, rows = first_table(page)
    rows.sort(key=lambda row: -float(row[3]))
    width, height = LEFT + int(SCALE * float(rows[0][3])) + 230, 72 + ROW * len(rows)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">',
             f"<title>{escape(title)}</title>",
             "<style>text{font:13px sans-serif;fill:#1f2328}.small{font-size:11px;fill:#57606a}.bar{fill:#1f6f8b}"
             ".one{stroke:#8b949e;stroke-dasharray:3}@media(prefers-color-scheme:dark){text{fill:#e6edf3}"
             ".small{fill:#adbac7}.bar{fill:#58a6c8}}</style>",
             text(8, 20, f"{title}, {header[1]}"),
             text(8, 38, f"{header[3]}: how many times as long it takes; milliseconds of both", ' class="small"'),
             text(LEFT + SCALE - 6, 50, "1×", ' class="small"')]
    y = 56
    for name, ours, theirs, ratio in (row[:4] for row in rows):
        bar = SCALE * float(ratio)
        parts += [text(LEFT - 8, y + BAR - 3, name, ' text-anchor="end"'),
                  f'<rect class="bar" x="{LEFT}" y="{y}" width="{bar:.0f}" height="{BAR}"/>',
                  text(LEFT + bar + 6, y + BAR - 3, f"{ratio}×"),
                  text(LEFT + bar + 52, y + BAR - 3, f"{ours} and {theirs} ms", ' class="small"')]
        y += ROW
    parts += [f'<path class="one" d="M{LEFT + SCALE} 50V{y}"/>', "</svg>"]
    return "\n".join(parts) + "\n"


def main(results, out, check=None):
    drawn = draw(pathlib.Path(results).read_text(encoding="utf-8"))
    if check is None:
        pathlib.Path(out).write_text(drawn, encoding="utf-8")
    elif pathlib.Path(out).read_text(encoding="utf-8") != drawn:
        sys.exit(f"{out} is not what chart.py draws of {results}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
