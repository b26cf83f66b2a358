#!/usr/bin/env python3
"""Times ggml's GATED_DELTA_NET against clattn's gated_delta_rule on the CPU, in f32, in one process, in turn.

    against_ggml.py --library build/lib/libclattn_bench.so --ggml DIRECTORY-OF-LIBGGML-CPU --device portable

ggml's libraries come with llama.cpp, or with a wheel of whisper.cpp: pip download --no-deps pywhispercpp, unzip it here,
LD_LIBRARY_PATH=. The op wants its state as one row there: --state row.

Both get the same inputs, and clattn's o is compared with ggml's. Then clattn alone, at the lengths of --lengths.
"""
import argparse
import ctypes
import glob
import json
import math
import os
import statistics
from ctypes import c_bool, c_int, c_int64, c_size_t, c_void_p

import side

F32 = 0
OPERANDS = ('q', 'k', 'v', 'g', 'beta')


class InitParams(ctypes.Structure):
    _fields_ = [('mem_size', c_size_t), ('mem_buffer', c_void_p), ('no_alloc', c_bool)]


FUNCTIONS = {  # of ggml.h and ggml-cpu.h
    'ggml_cpu_init': (None, []),
    'ggml_init': (c_void_p, [InitParams]),
    'ggml_new_tensor_4d': (c_void_p, [c_void_p, c_int] + [c_int64] * 4),
    'ggml_get_data': (c_void_p, [c_void_p]),
    'ggml_nbytes': (c_size_t, [c_void_p]),
    'ggml_gated_delta_net': (c_void_p, [c_void_p] * 7 + [c_int64]),
    'ggml_new_graph': (c_void_p, [c_void_p]),
    'ggml_build_forward_expand': (None, [c_void_p, c_void_p]),
    'ggml_graph_compute_with_ctx': (c_int, [c_void_p, c_void_p, c_int]),
    'ggml_time_us': (c_int64, []),
    'ggml_time_init': (None, []),
}


def load_ggml(directory):
    """ggml's functions, from libggml-base and libggml-cpu."""
    libraries = []
    for name in ('ggml-base', 'ggml-cpu'):
        files = glob.glob(os.path.join(directory, '**', f'lib{name}.so'), recursive=True)
        if not files:
            raise SystemExit(f'--ggml {directory}: there is no lib{name}.so')
        libraries.append(ctypes.CDLL(files[0], mode=ctypes.RTLD_GLOBAL))
    ggml = argparse.Namespace()
    for name, (result, arguments) in FUNCTIONS.items():
        function = next(getattr(library, name) for library in libraries if hasattr(library, name))
        function.restype, function.argtypes = result, arguments
        setattr(ggml, name, function)
    ggml.ggml_time_init()
    ggml.ggml_cpu_init()
    return ggml


class Ggml:
    """ggml's op over the inputs of a clattn problem."""

    def __init__(self, ggml, problem, T, H, D, options):
        self.ggml, self.threads = ggml, options.threads
        size = 4 * (4 * T * H * D + 2 * T * H + 2 * H * D * D)
        self.context = ggml.ggml_init(InitParams(2 * size + (16 << 20), None, False))
        shapes = {'q': (D, H, T, 1), 'k': (D, H, T, 1), 'v': (D, H, T, 1), 'g': (1, H, T, 1), 'beta': (1, H, T, 1),
                  'state': (D, D, H, 1) if options.state == 'matrices' else (D * D * H, 1, 1, 1)}
        tensors = {name: ggml.ggml_new_tensor_4d(self.context, F32, *dims) for name, dims in shapes.items()}
        for name in OPERANDS:
            address, count = problem.operand(name)
            assert count == ggml.ggml_nbytes(tensors[name])
            ctypes.memmove(ggml.ggml_get_data(tensors[name]), address, count)
        ctypes.memset(ggml.ggml_get_data(tensors['state']), 0, ggml.ggml_nbytes(tensors['state']))
        self.result = ggml.ggml_gated_delta_net(self.context, *tensors.values(), 1)
        self.graph = ggml.ggml_new_graph(self.context)
        ggml.ggml_build_forward_expand(self.graph, self.result)

    def run(self):
        if self.ggml.ggml_graph_compute_with_ctx(self.context, self.graph, self.threads):
            raise SystemExit('ggml: the graph cannot be computed')

    def time(self, count):
        self.run()
        seconds = []
        for _ in range(count):
            start = self.ggml.ggml_time_us()
            self.run()
            seconds.append(1e-6 * (self.ggml.ggml_time_us() - start))
        return seconds

    def output(self, count):
        return (ctypes.c_float * count).from_address(self.ggml.ggml_get_data(self.result))


def relative_error(x, reference):
    difference = math.sqrt(sum((a - b) * (a - b) for a, b in zip(x, reference)))
    return difference / math.sqrt(sum(b * b for b in reference))


def summary(seconds):
    quarter = len(seconds) // 4
    ordered = sorted(seconds)
    median = statistics.median(ordered)
    return {'median_ms': 1e3 * median, 'min_ms': 1e3 * ordered[0],
            'spread_percent': 100 * (ordered[-1 - quarter] - ordered[quarter]) / median, 'runs': len(seconds)}


def ratio_of_rounds(rounds, over, under):
    """The median of the rounds' ratios: a machine whose clock drifts slows both sides of a round."""
    return statistics.median(statistics.median(times[over]) / statistics.median(times[under]) for times in rounds)


def open_problem(device, T, H, D):
    problem = side.Problem(device, 'gated_delta_rule', batch=1, seq_len=T, heads=H, key_dim=D, value_dim=D, sets=1)
    problem.fill(1)
    problem.write(0)
    problem.run()
    return problem


def compare(device, ggml, options):
    T, H, D = options.tokens, options.heads, options.dim
    with open_problem(device, T, H, D) as problem:
        peer = Ggml(ggml, problem, T, H, D, options)
        peer.run()
        problem.read(0, 'o')
        address, size = problem.operand('o')
        error = relative_error((ctypes.c_float * (size // 4)).from_address(address), peer.output(size // 4))
        rounds = []
        for i in range(options.rounds):
            order = (problem, peer) if i % 2 else (peer, problem)
            rounds.append({'clattn' if one is problem else 'ggml': one.time(options.runs) for one in order})
        rows = {name: summary(sum((times[name] for times in rounds), [])) for name in ('clattn', 'ggml')}
        return {'tokens': T, 'heads': H, 'dim': D, 'threads': options.threads, 'error': error, **rows,
                'ratio': ratio_of_rounds(rounds, 'ggml', 'clattn'), 'plan': problem.plan()}


def scale(device, options):
    """Medians by length; the rounds go over all lengths, so that a change of the machine meets them alike."""
    problems = {T: open_problem(device, T, options.heads, options.dim) for T in options.lengths}
    rounds = [{T: problem.time(max(1, options.runs * options.lengths[0] // T)) for T, problem in problems.items()}
              for _ in range(options.rounds)]
    rows = {T: summary(sum((times[T] for times in rounds), [])) for T in problems}
    for T, row in rows.items():
        row['over_half'] = ratio_of_rounds(rounds, T, T // 2) if T // 2 in rows else None
    return rows


def print_comparison(row):
    print(f"gated_delta_rule f32 T={row['tokens']} H={row['heads']} D={row['dim']}, {row['threads']} threads\n")
    print('| | median ms | min ms | spread % | runs |\n|---|---|---|---|---|')
    for name in ('clattn', 'ggml'):
        print('| {} | {median_ms:.2f} | {min_ms:.2f} | {spread_percent:.1f} | {runs} |'.format(name, **row[name]))
    wrong = '' if row['error'] <= 1e-4 else ', WRONG'
    print(f"\nggml / clattn: {row['ratio']:.2f}; clattn's o against ggml's: {row['error']:.1e}{wrong}\n")


def print_scaling(rows):
    print('| T | median ms | spread % | time for T / time for T/2 |\n|---|---|---|---|')
    for T, row in rows.items():
        ratio = f"{row['over_half']:.2f}" if row['over_half'] else ''
        print(f"| {T} | {row['median_ms']:.2f} | {row['spread_percent']:.1f} | {ratio} |")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--library', default='build/lib/libclattn_bench.so')
    parser.add_argument('--ggml', help='where libggml-base.so and libggml-cpu.so are; without it, clattn alone')
    parser.add_argument('--device', default='portable')
    parser.add_argument('--threads', type=int, default=2, help='of ggml')
    parser.add_argument('--state', choices=('matrices', 'row'), default='matrices', help="dims of ggml's state")
    parser.add_argument('--tokens', type=int, default=1024)
    parser.add_argument('--heads', type=int, default=16)
    parser.add_argument('--dim', type=int, default=128)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--runs', type=int, default=8, help='of each in a round')
    parser.add_argument('--lengths', type=lambda text: [int(T) for T in text.split(',')], default=[])
    parser.add_argument('--json', help='file for the results')
    return parser.parse_args()


def main():
    options = parse_options()
    device = side.Side(options.library, options.device)
    results = {'device': device.device, 'driver': device.driver, 'load': os.getloadavg()}
    print(f"{device.device}, driver {device.driver}; load {results['load'][0]:.2f}\n")
    if options.ggml:
        results['ggml'] = compare(device, load_ggml(options.ggml), options)
        print_comparison(results['ggml'])
    if options.lengths:
        results['lengths'] = scale(device, options)
        print_scaling(results['lengths'])
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(results, file, indent=1)


if __name__ == '__main__':
    main()
