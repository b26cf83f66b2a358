#!/usr/bin/env python3
"""python_call.py [CALLS]: what the Python package adds to clattn_run in a call of one token whose plan is kept.

    PYTHONPATH=build/python python3 bench/python_call.py

Microseconds of this thread's own time (CLOCK_THREAD_CPUTIME_ID), which neither other processes nor the device's threads
are in: of a whole call, of clattn_run alone, of ctypes alone. What the package adds is the difference of the first two with
ctypes, and once more what a call takes whose clattn_run returns at once. Rounds alternate; the least of each counts."""

import ctypes
import sys
import time

import numpy as np

import clattn
from clattn import _plan

ROUNDS = 15


def seconds(function, calls):
    start = time.thread_time()
    for _ in range(calls):
        function()
    return (time.thread_time() - start) / calls


class Last:
    """The library, which keeps a copy of the arguments of the last clattn_run."""

    def __init__(self, library):
        self._library, self.arguments = library, None

    def __getattr__(self, name):
        return getattr(self._library, name)

    def clattn_run_sized(self, plan, call, *sizes):
        kept = clattn._interface.Call.from_buffer_copy(call._obj)
        operands = clattn._interface.Operand * kept.operand_count
        kept.operand_list = operands.from_buffer_copy(operands.from_address(kept.operands))
        kept.operands = ctypes.addressof(kept.operand_list)
        self.arguments = plan, ctypes.byref(kept), *sizes
        return self._library.clattn_run_sized(plan, call, *sizes)


class Without(Last):
    """The library, whose clattn_run does nothing."""

    def clattn_run_sized(self, *arguments):
        return 0


def run_alone(call):
    """clattn_run as `call` calls it, with the same arrays, and the same without a plan, which returns at once."""
    library = _plan.c.library
    last = _plan.c.library = Last(library)
    kept = call()
    _plan.c.library = library
    run, arguments = library.clattn_run_sized, last.arguments
    nothing = (ctypes.c_void_p(), *arguments[1:])
    assert run(*arguments) == 0 and run(*nothing) != 0
    return (lambda: (run(*arguments), kept)), lambda: run(*nothing)


def without_run(call):
    library = _plan.c.library
    without = Without(library)

    def called():
        _plan.c.library = without
        call()
        _plan.c.library = library
    return called


def inputs(make):
    rng, shape = np.random.default_rng(1), (1, 1, 8, 64)
    q, k, v = (make(rng.standard_normal(shape, np.float32)) for _ in "qkv")
    g, beta = make(-rng.random(shape[:3], np.float32)), make(rng.random(shape[:3], np.float32))
    return q, k, v, g, beta, make(np.zeros((1, 8, 64, 64), np.float32))


def kinds():
    yield "NumPy", lambda x: x
    try:
        import torch
        yield "PyTorch", torch.from_numpy
    except ImportError:
        pass


def main(calls=300):
    print(f"{'arrays':<10}{'whole call':>12}{'clattn_run':>12}{'ctypes':>8}{'difference':>12}{'without run':>13}   us")
    for name, make in kinds():
        q, k, v, g, beta, state = inputs(make)

        def call():
            return clattn.gated_delta_rule(q, k, v, g, beta, initial_state=state, output_final_state=True, qk_l2norm=True)

        call()
        functions = call, *run_alone(call), without_run(call)
        whole, run, empty, without = (min(times) for times in zip(*(
            [seconds(function, calls) * 1e6 for function in functions] for _ in range(ROUNDS))))
        print(f"{name:<10}{whole:>12.1f}{run:>12.1f}{empty:>8.1f}{whole - run + empty:>12.1f}{without + empty:>13.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
