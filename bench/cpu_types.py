#!/usr/bin/env python3
"""Times gated_delta_rule in several types on a CPU device, in one process, in turn, by the CPU time of all threads.

    cpu_types.py --library build/lib/libclattn_bench.so --device portable

A row is a prompt or a step: the least of the rounds for each type, and the median of the rounds' ratios to the first type.
"""
import argparse
import statistics
import time

import side


def timed(problem, count):
    begin = time.process_time()
    for _ in range(count):
        problem.run()
    return 1e3 * (time.process_time() - begin) / count


def compare(device, dtypes, T, H, count, options):
    problems = []
    for dtype in dtypes:
        problem = side.Problem(device, 'gated_delta_rule', batch=1, seq_len=T, heads=H, key_dim=options.dim,
                               value_dim=options.dim, sets=1, dtype=side.DTYPES[dtype],
                               flags=side.INITIAL_STATE | side.FINAL_STATE)
        problem.fill(1)
        problem.write(0)
        problem.run()
        problems.append(problem)
    times = [[] for _ in problems]
    for i in range(options.rounds):
        for n in range(len(problems)) if i % 2 else reversed(range(len(problems))):
            times[n].append(timed(problems[n], count))
    cells = [f'{min(own):.3f} ({statistics.median(a / b for a, b in zip(own, times[0])):.2f})' for own in times]
    print(f'| {T} tokens, {H} heads | ' + ' | '.join(cells) + ' |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--library', default='build/lib/libclattn_bench.so')
    parser.add_argument('--device', default='portable')
    parser.add_argument('--dtypes', default='f32,bf16,f16')
    parser.add_argument('--dim', type=int, default=128)
    parser.add_argument('--rounds', type=int, default=15)
    options = parser.parse_args()
    device, dtypes = side.Side(options.library, options.device), options.dtypes.split(',')
    print(f'{device.device}, driver {device.driver}; K = V = {options.dim}; CPU ms of all threads, least of {options.rounds} '
          f'rounds (median ratio to {dtypes[0]})\n')
    print('| gated_delta_rule | ' + ' | '.join(dtypes) + ' |\n' + '|---' * (len(dtypes) + 1) + '|')
    compare(device, dtypes, 1024, 16, 2, options)
    compare(device, dtypes, 1, 32, 40, options)


if __name__ == '__main__':
    main()
