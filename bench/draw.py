#!/usr/bin/env python3
"""Draws what the command writes: draw.py FILE OUT.png (or .svg, .pdf)

FILE is the report of `clattn tune` (tuning-report.json): for each solver every point that was timed, when it was tried
and how fast it is, and the times by length. Or it is the output of `clattn plot` (CSV): the attention matrix of each head.
Needs matplotlib: pip install matplotlib
"""
import csv
import json
import sys

try:
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit('draw.py needs matplotlib: pip install matplotlib')


def draw_search(axis, row):
    """Each point's time when it was tried, the best until then, and the default."""
    points = [(point['at'], point['time_ms']) for point in row.get('candidates', []) if point['state'] == 'timed']
    best = [min(time for _, time in points[:i + 1]) for i in range(len(points))]
    axis.plot(*zip(*points), '.', color='#9db4c8') if points else None
    axis.step([at for at, _ in points], best, where='post', color='#0b7a75', label=f"tuned {row['time_ms']:.3f} ms")
    axis.axhline(row['default_ms'], color='#b4541a', linestyle='--', label=f"default {row['default_ms']:.3f} ms")
    axis.set(title=f"{row['group']} {row['dtype']} K={row['key_dim']} V={row['value_dim']}: {row['solver']}",
             xlabel='seconds of the search', ylabel=f"ms for {row['tokens']} tokens")
    axis.legend()


def draw_lengths(axis, row):
    lengths = [(pair['tokens'], pair['time_ms']) for pair in row['lengths'] if pair['time_ms'] > 0]
    axis.loglog(*zip(*lengths), 'o-') if lengths else None
    axis.set(title='as tuned', xlabel='tokens', ylabel='ms')


def draw_report(report):
    rows = report['rows']
    figure, axes = plt.subplots(len(rows), 2, figsize=(12, 4 * len(rows)), squeeze=False, layout='constrained')
    for row, (search, lengths) in zip(rows, axes):
        draw_search(search, row)
        draw_lengths(lengths, row)
    figure.suptitle(f"{report['device']}, driver {report['driver']}, clattn {report['clattn']}, {report['date']}")


def draw_matrices(lines):
    elements = {(int(b), int(h), int(q), int(k)): float(value) for b, h, q, k, value in lines}
    heads = sorted({place[:2] for place in elements})
    queries, keys = (1 + max(place[i] for place in elements) for i in (2, 3))
    largest = max(map(abs, elements.values())) or 1
    figure, axes = plt.subplots(1, len(heads), figsize=(4 * len(heads) + 1, 4), squeeze=False, layout='constrained')
    for (batch, head), axis in zip(heads, axes[0]):
        matrix = [[elements[batch, head, q, k] for k in range(keys)] for q in range(queries)]
        image = axis.imshow(matrix, cmap='PuOr', norm=matplotlib.colors.SymLogNorm(largest / 30, vmin=-largest, vmax=largest))
        axis.set(title=f'batch {batch}, head {head}', xlabel='keys', ylabel='queries')
    figure.colorbar(image, ax=axes)


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding='utf-8') as file:
        if file.read(1) == '{':
            file.seek(0)
            draw_report(json.load(file))
        else:
            file.seek(0)
            draw_matrices(list(csv.reader(file))[1:])
    plt.savefig(sys.argv[2])
