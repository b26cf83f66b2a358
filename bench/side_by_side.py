#!/usr/bin/env python3
"""Times clattn and flash-linear-attention (fla) side by side: in one process, in turn, over the same inputs.

    side_by_side.py --library build/lib/libclattn_bench.so --fla CHECKOUT --warm-fla --out DIRECTORY
    side_by_side.py --library build/lib/libclattn_bench.so --no-fla --shapes B1T256H2 --rules gla,kda

A shape is BbTtHh, with T1 for a decode step; K = V = --dim. Writes side_by_side.json, .md and .svg into --out.
"""
import argparse
import os
import re
import statistics
import sys
import time

import peer_fla
import report
import rules
import side

DEFAULT_SHAPES = 'B2T16384H16,B4T2048H16,B1T32768H8,B1T1H64,B64T1H64,B512T1H64'
HEAD_POOR = ('B1T32768H8', ('gated_delta_rule',))  # only these rules there, unless --rules says more
LARGER_THAN_CACHE, MOST_SETS = 256e6, 32
WRONG = 1e-2  # relative RMS of clattn's o against fla's
AFFORDABLE = 2e9  # of the reference without fla: elements of state times tokens


def parse_shape(text, dim):
    match = re.fullmatch(r'B(\d+)T(\d+)H(\d+)', text)
    if not match:
        raise SystemExit(f'--shapes: {text} is not like B2T16384H16')
    batch, seq_len, heads = map(int, match.groups())
    return {'batch': batch, 'seq_len': seq_len, 'heads': heads, 'key_dim': dim, 'value_dim': dim}


def plan_rows(options):
    """(name of the shape, rule), in the order in which they are timed: whole tables of a shape."""
    chosen = options.rules.split(',') if options.rules else [rule.name for rule in rules.RULES]
    known = {rule.name for rule in rules.RULES}
    if not known.issuperset(chosen):
        raise SystemExit(f'--rules: {", ".join(sorted(set(chosen) - known))}: not in {", ".join(sorted(known))}')
    rows = []
    for name in options.shapes.split(','):
        step = parse_shape(name, options.dim)['seq_len'] == 1
        for rule in map(rules.rule_named, chosen):
            few = name == HEAD_POOR[0] and not options.rules and rule.name not in HEAD_POOR[1]
            if not few and ('step' if step else 'forward') in rule.passes:
                rows.append((name, rule))
    return rows


def summary(seconds):
    ordered, quarter = sorted(seconds), len(seconds) // 4
    median = statistics.median(ordered)
    return {'ms': 1e3 * median, 'min_ms': 1e3 * ordered[0], 'max_ms': 1e3 * ordered[-1], 'runs': len(seconds),
            'spread_percent': 100 * (ordered[-1 - quarter] - ordered[quarter]) / median}


class Bench:
    def __init__(self, options):
        self.options = options
        self.side = side.Side(options.library, options.device)
        self.torch, self.fla_version = None, None
        if options.fla:
            self.torch, self.fla_version = load_fla(options)
        self.peaks = self.measure_peaks()

    def measure_peaks(self):
        copy, mad = self.side.peaks()
        peaks = {'copy': copy, 'copy_by': 'OpenCL', 'matrix': mad, 'matrix_by': 'f32 multiply-adds, OpenCL'}
        if self.torch:
            faster = max(copy, torch_copy_rate(self.torch))
            peaks.update(copy=faster, copy_by='OpenCL' if faster == copy else 'PyTorch',
                         matrix=torch_matrix_rate(self.torch, self.options.dtype),
                         matrix_by=f'{self.options.dtype} 8192x8192x8192 product, PyTorch')
        return peaks

    # ---- Inputs

    def send(self, problem, tensors, set_):
        """To clattn, through the host."""
        for name, x in tensors.items():
            view = self.torch.frombuffer(problem.view(name), dtype=x.dtype)
            assert view.numel() == x.numel(), name
            view.copy_(x.reshape(-1))
        problem.write(set_)

    # ---- One row

    def row(self, name, rule):
        options, shape = self.options, parse_shape(name, self.options.dim)
        step = shape['seq_len'] == 1
        bytes_ = rules.count_bytes(rule, shape, options.dtype, step)
        sets = int(min(MOST_SETS, max(1, -(-LARGER_THAN_CACHE // bytes_))))
        row = {'rule': rule.name, 'shape': name, 'pass': 'step' if step else 'forward', 'dtype': options.dtype, **shape,
               'gates': options.dtype if rule.data_gates else 'f32', 'sets': sets, 'bytes': bytes_,
               'flops': rules.count_flops(rule, shape, step)}
        fields = rules.clattn_shape(rule, shape, options.dtype, step)
        with side.Problem(self.side, rule.clattn, **fields, sets=sets) as problem:
            row['plan'] = problem.plan()
            peer = self.prepare(row, problem, rule, shape, step, sets)
            self.time(row, problem, *peer)
        report.judge(row, self.peaks, WRONG)
        return row

    def prepare(self, row, problem, rule, shape, step, sets):
        """Inputs on both sides and their results compared. The calls of fla to time, plain and for a graph."""
        if not self.torch:
            problem.fill(1)
            for set_ in range(sets):
                problem.write(set_)
            self.check_alone(row, problem)
            return None, None
        dtype = torch_dtype(self.torch, self.options.dtype)
        plain, captured = [], []
        for set_ in range(sets):
            tensors = peer_fla.draw_all(self.torch, rule, shape, dtype, 1000 + set_)
            self.send(problem, tensors, set_)
            arguments = rules.fla_arguments(rule, tensors, dtype, step)
            plain.append(peer_fla.call(self.torch, rule, arguments, step))
            captured.append(peer_fla.call(self.torch, rule, arguments, step, graph=True))
        row['error'] = self.error(problem, plain[0])
        return plain, captured if self.options.graph else None

    def check_alone(self, row, problem):
        size = row['batch'] * row['seq_len'] * row['heads'] * row['key_dim'] * row['value_dim']
        if size > AFFORDABLE:
            return
        problem.run(0)
        problem.read(0)
        row['error'] = problem.reference_error()

    def error(self, problem, call):
        torch = self.torch
        expected = call()[0]
        torch.cuda.synchronize()
        problem.run(0)
        problem.read(0, 'o')
        o = torch.frombuffer(problem.view('o'), dtype=expected.dtype).to('cuda').reshape(expected.shape).float()
        expected = expected.float()
        return float((o - expected).norm() / expected.norm())

    def time(self, row, problem, plain, captured):
        """Rounds of both sides in turn, the order changing every round."""
        options, times = self.options, {'clattn': [], 'fla': [], 'fla_graph': []}
        runs = -(-options.runs // options.rounds)
        problem.time(options.warm_ups)
        graph = peer_fla.capture(self.torch, captured) if captured else None
        if plain:
            peer_fla.time_calls(self.torch, plain, options.warm_ups)
        for i in range(options.rounds):
            for who in ('clattn', 'fla') if i % 2 else ('fla', 'clattn'):
                if who == 'clattn':
                    times['clattn'] += problem.time(runs)
                elif plain:
                    times['fla'] += peer_fla.time_calls(self.torch, plain, runs)
            if graph:
                replay, count = graph
                times['fla_graph'] += [t / count for t in peer_fla.time_calls(self.torch, [replay], runs)]
        for who, seconds in times.items():
            row[who] = summary(seconds) if seconds else None


def load_fla(options):
    peer_fla.use_configs(options.fla_configs)
    version = peer_fla.use_checkout(options.fla)
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f'--fla: {error}; --no-fla times clattn alone') from error
    if not torch.cuda.is_available():
        raise SystemExit('--fla: PyTorch sees no GPU; --no-fla times clattn alone')
    torch.set_grad_enabled(False)
    peer_fla.short_tuning(*options.tune_ms)
    return torch, version


def torch_copy_rate(torch):
    source = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')
    target = torch.empty_like(source)
    seconds = peer_fla.time_calls(torch, [lambda: target.copy_(source)], 20)
    return 2 * source.numel() / min(seconds)


def torch_matrix_rate(torch, dtype, size=8192):
    a, b = (torch.randn(size, size, device='cuda').to(torch_dtype(torch, dtype)) for _ in range(2))
    return 2 * size**3 / statistics.median(peer_fla.time_calls(torch, [lambda: a @ b], 20))


def torch_dtype(torch, dtype):
    return getattr(torch, {'f32': 'float32', 'f16': 'float16', 'bf16': 'bfloat16'}[dtype])


def describe(bench, options):
    about = {'device': bench.side.device, 'driver': bench.side.driver, 'dtype': options.dtype, 'dim': options.dim,
             'fla': bench.fla_version, 'peaks': bench.peaks, 'rounds': options.rounds}
    if bench.torch:
        import triton
        about.update(torch=bench.torch.__version__, triton=triton.__version__, gpu=bench.torch.cuda.get_device_name(0))
    return about


def run(options, start):
    planned = plan_rows(options)
    if options.fla and options.warm_fla:
        worker = ['--fla', options.fla, '--dtype', options.dtype]
        worker += ['--fla-configs', options.fla_configs] if options.fla_configs else []
        tasks = [(rule.name, parse_shape(name, options.dim)) for name, rule in planned]
        peer_fla.warm(os.path.abspath(__file__), worker, tasks, options.processes)
        print(f'warm after {time.monotonic() - start:.0f} s', file=sys.stderr)
    if options.warm_only:
        return []
    bench = Bench(options)
    about, rows, longest = describe(bench, options), [], 0
    for name, rule in planned:
        begin = time.monotonic()
        if options.budget and begin - start + longest > options.budget:
            rows.append({'rule': rule.name, 'shape': name, 'message': 'left out: no time'})
            continue
        try:
            rows.append(bench.row(name, rule))
        except Exception as error:  # one row's failure is a line of the table
            message = f'{type(error).__name__}: {error}'.splitlines()[0]
            rows.append({'rule': rule.name, 'shape': name, 'message': message})
        longest = max(longest, time.monotonic() - begin)
        print(report.progress(rows[-1], time.monotonic() - start), file=sys.stderr, flush=True)
        report.write(options.out, about, rows)
    print(report.markdown(about, rows), flush=True)
    if bench.torch and options.fla_configs:
        peer_fla.keep_configs(options.fla_configs)
    return rows


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add('--library', default='build/lib/libclattn_bench.so', help='built with -DCLATTN_BUILD_BENCH=ON')
    add('--device', help="clattn's device, as in `clattn bench`")
    add('--fla', help='a checkout of flash-linear-attention: the folder that holds fla/')
    add('--no-fla', action='store_true', help='clattn alone, checked against its reference where that is affordable')
    add('--warm-fla', action='store_true', help="compile fla's kernels in parallel processes first")
    add('--warm-only', action='store_true', help='stop after that')
    add('--processes', type=int, default=os.cpu_count())
    add('--fla-configs', help="folder where the configurations that tuning chose for fla's kernels are kept")
    add('--tune-ms', type=lambda text: [int(ms) for ms in text.split(',')], default=[10, 40],
        help='warm-up and timed milliseconds of a configuration when Triton tunes')
    add('--rules', help='a,b: rows of rules.py; all')
    add('--shapes', default=DEFAULT_SHAPES)
    add('--dim', type=int, default=128)
    add('--dtype', choices=side.DTYPES, default='bf16')
    add('--rounds', type=int, default=5)
    add('--runs', type=int, default=25, help='of each side, over all rounds')
    add('--warm-ups', type=int, default=3)
    add('--graph', action=argparse.BooleanOptionalAction, default=True,
        help="also time fla from a CUDA graph: its kernels without Python's time")
    add('--budget', type=float, help='seconds: rows that do not fit are left out')
    add('--out', default='.', help='folder of the results')
    add('--warm-worker', type=lambda text: tuple(map(int, text.split(','))), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.warm_worker and bool(options.fla) == options.no_fla:
        parser.error('give --fla CHECKOUT or --no-fla')
    return options


def main():
    start, options = time.monotonic(), parse_options()
    if options.warm_worker:
        torch, _ = load_fla(options)
        peer_fla.warm_worker(torch, torch_dtype(torch, options.dtype), options.warm_worker)
        return 0
    rows = run(options, start)
    return 1 if any(row.get('message') or row.get('wrong') for row in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
