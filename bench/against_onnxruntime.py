#!/usr/bin/env python3
"""Times ONNX Runtime's contrib op LinearAttention against clattn's gated_delta_rule on the CPU, in f32, in one process,
in turn.

    pip install onnxruntime onnx numpy
    against_onnxruntime.py --library build/lib/libclattn_bench.so --device portable

Both get the same inputs, and clattn's o is compared with ONNX Runtime's. A time is the CPU time of all threads, which
other programs on the machine disturb least, and beside it the time by the clock. The first row is a prompt, the second
a step of one token from a state to a state.
"""
import argparse
import statistics
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

import side

OPERANDS = ('q', 'k', 'v', 'initial_state', 'g', 'beta')


def shapes(T, H, D):
    """clattn's shapes of a batch of 1, and ONNX's."""
    return {'q': (1, T, H * D), 'k': (1, T, H * D), 'v': (1, T, H * D), 'initial_state': (1, H, D, D), 'g': (1, T, H),
            'beta': (1, T, H)}


class OnnxRuntime:
    def __init__(self, inputs, T, H, D, threads):
        def floats(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        node = helper.make_node('LinearAttention', OPERANDS, ['o', 'final_state'], domain='com.microsoft', q_num_heads=H,
                                kv_num_heads=H, update_rule='gated_delta', scale=D ** -0.5)
        graph = helper.make_graph([node], 'step', [floats(*item) for item in shapes(T, H, D).items()],
                                  [floats('o', (1, T, H * D)), floats('final_state', (1, H, D, D))])
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid('', 21),
                                                                       helper.make_opsetid('com.microsoft', 1)])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry('session.intra_op.allow_spinning', '0')  # threads that wait would count
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self.inputs = inputs

    def run(self):
        return self.session.run(None, self.inputs)


def timed(one, count):
    """CPU and clock seconds of one run, of count runs together."""
    one.run()
    cpu, clock = time.process_time(), time.perf_counter()
    for _ in range(count):
        one.run()
    return (time.process_time() - cpu) / count, (time.perf_counter() - clock) / count


def problem_of(device, T, H, D):
    problem = side.Problem(device, 'gated_delta_rule', batch=1, seq_len=T, heads=H, key_dim=D, value_dim=D, sets=1,
                           flags=side.INITIAL_STATE | side.FINAL_STATE)
    problem.fill(1)
    view = numpy.frombuffer(problem.view('k'), numpy.float32).reshape(-1, D)
    view /= numpy.linalg.norm(view, axis=1, keepdims=True)
    problem.write(0)
    problem.run()
    problem.read(0, 'o')
    return problem


def compare(device, T, H, D, options):
    with problem_of(device, T, H, D) as problem:
        inputs = {name: numpy.frombuffer(problem.view(name), numpy.float32).reshape(shape).copy()
                  for name, shape in shapes(T, H, D).items()}
        peer = OnnxRuntime(inputs, T, H, D, options.threads)
        theirs = peer.run()[0].ravel().astype(float)
        ours = numpy.frombuffer(problem.view('o'), numpy.float32)
        error = numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs)
        count = max(1, options.tokens * options.runs // T)
        rounds = []
        for i in range(options.rounds):
            order = (problem, peer) if i % 2 else (peer, problem)
            rounds.append({one is problem: timed(one, count) for one in order})
        least = {ours: [1e3 * min(times[ours][i] for times in rounds) for i in range(2)] for ours in (True, False)}
        ratio = statistics.median(times[False][0] / times[True][0] for times in rounds)
        wrong = '' if error <= 1e-4 else ' WRONG'
        print(f'| {T} tokens, {H} heads | {least[True][0]:.3f} | {least[False][0]:.3f} | {ratio:.2f} | '
              f'{least[True][1]:.3f} | {least[False][1]:.3f} | {error:.1e}{wrong} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--library', default='build/lib/libclattn_bench.so')
    parser.add_argument('--device', default='portable')
    parser.add_argument('--threads', type=int, default=2, help='of ONNX Runtime')
    parser.add_argument('--tokens', type=int, default=1024)
    parser.add_argument('--dim', type=int, default=128)
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--runs', type=int, default=3, help='of each in a round')
    options = parser.parse_args()
    device = side.Side(options.library, options.device)
    print(f'{device.device}, driver {device.driver}; ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}; '
          f'f32, K = V = {options.dim}; CPU time of all threads, least of {options.rounds} rounds\n')
    print('| gated_delta_rule | clattn, CPU ms | ONNX Runtime, CPU ms | ratio, median of rounds | clattn, ms by the '
          'clock | ONNX Runtime | difference |\n|---|---|---|---|---|---|---|')
    compare(device, options.tokens, 16, options.dim, options)
    compare(device, 1, 32, options.dim, options)


if __name__ == '__main__':
    main()
