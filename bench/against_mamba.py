#!/usr/bin/env python3
"""Times state-spaces/mamba's selective_scan (CUDA) against clattn's mamba on one NVIDIA GPU, in one process, in turn.

    against_mamba.py --library build/lib/libclattn_bench.so --mamba CHECKOUT --device nvidia

CHECKOUT is mamba's repository; its forward kernels are compiled by PyTorch's extension builder into --build. Both get
the same numbers, each as it lies for it: channels' rows there, tokens' rows in clattn. clattn's o is compared with theirs.
"""
import argparse
import ctypes
import os
import statistics

import torch
from torch.utils import cpp_extension

import side

HEAD, STATE = 128, 16  # columns of what clattn calls a head; channels a column
TYPES = {'f32': torch.float32, 'f16': torch.float16, 'bf16': torch.bfloat16}
WRONG = {'f32': 1e-4, 'f16': 5e-3, 'bf16': 2e-2}  # relative RMS of the difference

# The module's file names the backward pass too, which nobody calls here.
NO_BACKWARD = '''
#include <cuda_runtime.h>
#include <torch/extension.h>
#include "selective_scan.h"
template <typename input_t, typename weight_t> void selective_scan_bwd_cuda(SSMParamsBwd &, cudaStream_t) {}
#define FOR(T) template void selective_scan_bwd_cuda<T, float>(SSMParamsBwd &, cudaStream_t); \\
    template void selective_scan_bwd_cuda<T, c10::complex<float>>(SSMParamsBwd &, cudaStream_t);
FOR(float) FOR(at::Half) FOR(at::BFloat16)
'''


def load_mamba(checkout, build):
    folder = os.path.abspath(os.path.join(checkout, 'csrc', 'selective_scan'))
    os.makedirs(build, exist_ok=True)
    stub = os.path.join(os.path.abspath(build), 'no_backward.cpp')
    with open(stub, 'w', encoding='utf-8') as file:
        file.write(NO_BACKWARD)
    names = ['selective_scan.cpp'] + [f'selective_scan_fwd_{name}.cu' for name in ('fp32', 'fp16', 'bf16')]
    major, minor = torch.cuda.get_device_capability()
    return cpp_extension.load(
        'selective_scan_cuda', [os.path.join(folder, name) for name in names] + [stub], build_directory=build,
        extra_include_paths=[folder], extra_cflags=['-O3', '-std=c++17'],
        extra_cuda_cflags=['-O3', '-std=c++17', '-U__CUDA_NO_HALF_OPERATORS__', '-U__CUDA_NO_HALF_CONVERSIONS__',
                           '-U__CUDA_NO_BFLOAT16_OPERATORS__', '-U__CUDA_NO_BFLOAT16_CONVERSIONS__',
                           '-U__CUDA_NO_BFLOAT162_OPERATORS__', '-U__CUDA_NO_BFLOAT162_CONVERSIONS__',
                           '--expt-relaxed-constexpr', '--expt-extended-lambda', '--use_fast_math', '-lineinfo',
                           f'-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}'])


def tensor(problem, name, dtype, *dims):
    address, size = problem.operand(name)
    flat = torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=dtype)
    return flat.reshape(*dims)


class Mamba:
    """Their op over the inputs of a clattn problem."""

    def __init__(self, module, problem, B, T, D, dtype):
        columns = [tensor(problem, name, dtype, B, T, D).transpose(1, 2).contiguous().cuda() for name in ('v', 'dt')]
        keys = [tensor(problem, name, dtype, B, T, 1, STATE).permute(0, 2, 3, 1).contiguous().cuda()
                for name in ('k', 'q')]
        A = tensor(problem, 'a', torch.float32, D, STATE).cuda()
        self.module, self.arguments = module, (*columns, A, *keys, None, None, None, False)

    def run(self):
        return self.module.fwd(*self.arguments)[0]

    def time(self, count):
        self.run()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            self.run()
            event.record()
        torch.cuda.synchronize()
        return [1e-3 * start.elapsed_time(end) for start, end in zip(events, events[1:])]


def compare(device, module, options, shape, dtype):
    B, T, D = shape
    with side.Problem(device, 'mamba', batch=B, seq_len=T, heads=D // HEAD, qk_heads=1, key_dim=STATE, value_dim=HEAD,
                      dtype=side.DTYPES[dtype], sets=1) as problem:
        problem.fill(1)
        problem.write(0)
        problem.run()
        problem.read(0, 'o')
        own = tensor(problem, 'o', TYPES[dtype], B, T, D).float().cuda()
        peer = Mamba(module, problem, B, T, D, TYPES[dtype])
        theirs = peer.run().transpose(1, 2).float()
        error = float((own - theirs).norm() / theirs.norm())
        scale = float(own.flatten() @ theirs.flatten() / (theirs.flatten() @ theirs.flatten()))
        times = {'clattn': [], 'mamba': []}
        for i in range(options.rounds):
            for name, one in (('clattn', problem), ('mamba', peer))[::1 if i % 2 else -1]:
                times[name] += one.time(options.runs)
        medians = {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}
        size = 2 if dtype != 'f32' else 4
        floor = 1e3 * size * B * T * (3 * D + 2 * STATE) / options.bytes
        wrong = '' if error <= WRONG[dtype] else f', WRONG: {scale:.4f} times theirs'
        print(f"| B{B} T{T} D{D} {dtype} | {medians['clattn']:.3f} | {100 * floor / medians['clattn']:.0f} | "
              f"{medians['mamba']:.3f} | {medians['mamba'] / medians['clattn']:.2f} | {error:.1e}{wrong} |", flush=True)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--library', default='build/lib/libclattn_bench.so')
    parser.add_argument('--mamba', required=True, metavar='CHECKOUT')
    parser.add_argument('--build', default='mamba_build', help='folder for the compiled extension')
    parser.add_argument('--device', default='nvidia')
    parser.add_argument('--shapes', default='8x2048x2048,1x16384x4096', help='BxTxD,…')
    parser.add_argument('--dtypes', default='f32,bf16')
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--runs', type=int, default=10, help='of each in a round')
    return parser.parse_args()


def main():
    options = parse_options()
    device = side.Side(options.library, options.device)
    options.bytes = device.peaks()[0]
    module = load_mamba(options.mamba, options.build)
    print(f'{device.device}, driver {device.driver}; copy {options.bytes / 1e9:.0f} GB/s\n')
    print('| selective scan, K16 | clattn ms | % of the copy | mamba ms | mamba / clattn | difference |')
    print('|---|---|---|---|---|---|')
    for shape in options.shapes.split(','):
        for dtype in options.dtypes.split(','):
            compare(device, module, options, tuple(map(int, shape.split('x'))), dtype)


if __name__ == '__main__':
    main()
