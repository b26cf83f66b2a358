"""The results as text, JSON and a plot."""
import json
from pathlib import Path
from xml.sax.saxutils import escape

RATIO, LEAST_RATIO, FLOOR, STEP_SHARE = 2.5, 1.5, 1.7, 70  # the goals


def judge(row, peaks, wrong):
    """Adds ratios, floors and shares of them to a row that has its times."""
    seconds = 1e-3 * row['clattn']['ms']
    row['wrong'] = row.get('error') is not None and not row['error'] <= wrong
    for who in ('fla', 'fla_graph'):
        row[f'{who}_ratio'] = row[who]['ms'] / row['clattn']['ms'] if row[who] else None
    row['copy_floor_ms'] = 1e3 * row['bytes'] / peaks['copy'] if peaks['copy'] else None
    row['matrix_floor_ms'] = 1e3 * row['flops'] / peaks['matrix'] if peaks['matrix'] else None
    row['copy_percent'] = 100 * row['bytes'] / seconds / peaks['copy'] if peaks['copy'] else None
    row['matrix_percent'] = 100 * row['flops'] / seconds / peaks['matrix'] if peaks['matrix'] else None
    row['goal'] = goal(row)


def goal(row):
    if row['wrong']:
        return 'wrong'
    if row['pass'] == 'step':
        return 'met' if (row['copy_percent'] or 0) >= STEP_SHARE else 'no'
    if row['copy_floor_ms'] and row['clattn']['ms'] <= FLOOR * row['copy_floor_ms']:
        return 'floor'
    ratio = row['fla_ratio'] or 0
    return 'met' if ratio >= RATIO else 'least' if ratio >= LEAST_RATIO else 'no' if row['fla'] else ''


def number(value, form):
    return '' if value is None else format(value, form)


def milliseconds(times):
    return number(times and times['ms'], '.4f' if times and times['ms'] < 0.1 else '.3f')


COLUMNS = [  # title, text of a row
    ('rule', lambda row: row['rule']),
    ('gates', lambda row: row['gates']),
    ('clattn ms', lambda row: milliseconds(row['clattn'])),
    ('± %', lambda row: number(row['clattn']['spread_percent'], '.1f')),
    ('fla ms', lambda row: milliseconds(row['fla'])),
    ('± %', lambda row: number(row['fla'] and row['fla']['spread_percent'], '.1f')),
    ('fla / clattn', lambda row: number(row['fla_ratio'], '.2f')),
    ('fla graph ms', lambda row: milliseconds(row['fla_graph'])),
    ('fla graph / clattn', lambda row: number(row['fla_graph_ratio'], '.2f')),
    ('floor ms: copy', lambda row: number(row['copy_floor_ms'], '.4f')),
    ('matrix', lambda row: number(row['matrix_floor_ms'], '.4f')),
    ('% copy', lambda row: number(row['copy_percent'], '.1f')),
    ('% matrix', lambda row: number(row['matrix_percent'], '.1f')),
    ('error', lambda row: number(row.get('error'), '.1e')),
    ('goal', lambda row: row['goal']),
]


def heading(about):
    peaks = about['peaks']
    lines = [f"{about['device']}, driver {about['driver']}; {about['dtype']}, K = V = {about['dim']}, forward."]
    if about.get('fla'):
        lines.append(f"fla {about['fla']}, PyTorch {about['torch']}, Triton {about['triton']}.")
    lines.append(f"Measured: copy {1e-9 * peaks['copy']:.1f} GB/s ({peaks['copy_by']}), matrices "
                 f"{1e-12 * peaks['matrix']:.2f} TFLOP/s ({peaks['matrix_by']}).")
    return lines


def by_shape(rows):
    tables = {}
    for row in rows:
        tables.setdefault(row['shape'], []).append(row)
    return tables


def table(rows):
    lines = ['| ' + ' | '.join(title for title, _ in COLUMNS) + ' |', '|---' * len(COLUMNS) + '|']
    for row in rows:
        cells = [row['rule'], row['message']] if row.get('message') else [text(row) for _, text in COLUMNS]
        lines.append('| ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def markdown(about, rows):
    parts = [' '.join(heading(about))]
    for shape, of_shape in by_shape(rows).items():
        parts += [f'### {shape}', table(of_shape)]
    return '\n\n'.join(parts)


def progress(row, seconds):
    text = row.get('message') or f"{milliseconds(row['clattn'])} ms, fla {milliseconds(row['fla']) or '-'} ms, " \
                                 f"error {number(row.get('error'), '.1e') or '-'} {row['goal']}"
    return f"{seconds:4.0f} s  {row['shape']} {row['rule']}: {text}"


# ---- The plot: for every shape a bar of each side, and a mark where the floor is

BAR, ROW, LEFT, WIDTH, RIGHT = 7, 22, 150, 460, 150
LEGEND = 'Upper bar: clattn. Lower bar: fla; dark mark: fla from a CUDA graph. Red: the floor. Shorter is better.'
COLOURS = {'clattn': '#1f6f8b', 'fla': '#c9c9c9'}


def svg_text(x, y, text, anchor='start', weight='normal'):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


def svg_bars(row, y, scale):
    parts, bars = [svg_text(LEFT - 6, y + 2 * BAR - 2, row['rule'], 'end')], tuple(COLOURS)
    for i, who in enumerate(bars):
        if row[who]:
            parts.append(f'<rect x="{LEFT}" y="{y + i * BAR:.1f}" width="{row[who]["ms"] * scale:.1f}" height="{BAR}" '
                         f'fill="{COLOURS[who]}"/>')
    if row['fla_graph']:
        x = LEFT + row['fla_graph']['ms'] * scale
        parts.append(f'<path d="M{x:.1f} {y + BAR}v{BAR}" stroke="#444"/>')
    floor = max(row['copy_floor_ms'] or 0, row['matrix_floor_ms'] or 0) * scale
    parts.append(f'<path d="M{LEFT + floor:.1f} {y - 1}v{2 * BAR + 2}" stroke="#c0392b" stroke-width="1.5"/>')
    longest = max(row[who]['ms'] for who in bars if row[who])
    label = milliseconds(row['clattn']) + ' ms' + (f", {row['fla_ratio']:.2f}×" if row['fla_ratio'] else '') \
        + (' wrong' if row['wrong'] else '')
    parts.append(svg_text(LEFT + longest * scale + 5, y + 2 * BAR - 2, label))
    return parts


def svg(about, rows):
    parts, y = [], 22
    for line in [*heading(about), LEGEND]:
        parts.append(svg_text(8, y, line))
        y += 16
    y += 12
    for shape, of_shape in by_shape([row for row in rows if not row.get('message')]).items():
        scale = WIDTH / max(row[who]['ms'] for row in of_shape for who in ('clattn', 'fla') if row[who])
        parts.append(svg_text(8, y, shape, weight='bold'))
        y += 8
        for row in of_shape:
            parts += svg_bars(row, y, scale)
            y += ROW
        y += 18
    size = f'width="{LEFT + WIDTH + RIGHT}" height="{y}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n' \
        f'<rect {size} fill="#fff"/>\n' + '\n'.join(parts) + '\n</svg>\n'


def write(folder, about, rows):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'side_by_side.json').write_text(json.dumps({**about, 'rows': rows}, indent=1))
    (folder / 'side_by_side.md').write_text(markdown(about, rows) + '\n')
    (folder / 'side_by_side.svg').write_text(svg(about, rows))
