#!/usr/bin/env python3
"""fla_tests.py CHECKOUT [PYTEST ARGUMENT...]: flash-linear-attention's own tests, of its plain PyTorch loops against its
kernels, with clattn.fla in the kernels' place, on the CPU.

CHECKOUT is a clone of github.com/fla-org/flash-linear-attention, whose tests and loops are used as they are. Its Triton
kernels are not: without a GPU they cannot run, so that a module with nothing in it stands for Triton. It needs PyTorch
2.4, pytest and einops, and clattn (PYTHONPATH=build/python).

    python3 tests/fla_tests.py ../flash-linear-attention                  an hour of a core; tests take up to 8 GB
    python3 tests/fla_tests.py ../flash-linear-attention -k test_chunk"""

import importlib.abc
import importlib.machinery
import pathlib
import sys
import types

import clattn.fla

# A file of tests/ops, and the names in it of tests that compare a loop in PyTorch with a kernel. Others test Triton's
# helpers, other back ends, one kernel against another, or want the matrix of attention, which clattn does not return.
TESTS = {
    "test_gdn": "(test_fused_recurrent or test_chunk) and not guard",
    "test_gla": "test_fused_recurrent or test_chunk",
    "test_kda": "(test_fused_recurrent or test_chunk) and not vllm and not invalid and not intermediate",
    "test_simple_gla": "test_fused_recurrent or test_chunk or test_fused_chunk or test_parallel_varlen",
    "test_rwkv7": "test_fused_mul_recurrent or test_chunk_wrapper",
}


KEPT = {}  # the modules of the real Triton, which does not like to be unloaded


class Anything:
    """A decorator, a kernel, a constant: whatever fla makes of Triton while it is imported."""

    __name__ = __qualname__ = "anything"

    def __init__(self, *arguments, **keywords):
        pass

    def __getattr__(self, name):
        if name == "get_current_target" or name.startswith("__"):  # no device: fla falls back to the CPU
            raise AttributeError(name)
        return Anything()

    def __call__(self, *arguments, **keywords):
        return Anything()

    def __iter__(self):
        return iter(())

    def __or__(self, other):
        return Anything

    __ror__ = __or__


class Nothing(types.ModuleType):
    """A module that has every name."""

    __path__ = []
    __version__ = "99.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (Anything,), {}) if name[0].isupper() else Anything())
        return self.__dict__[name]


class WithoutTriton(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "triton" else None

    def create_module(self, spec):
        return Nothing(spec.name)

    def exec_module(self, module):
        module.next_power_of_2 = lambda n: 1 << (n - 1).bit_length()  # tests count with it


class Exchange:
    """Before tests are collected, every function of fla that clattn.fla has is clattn's, in all of fla's modules."""

    def __init__(self):
        self.names = [name for name in dir(clattn.fla) if not name.startswith("_") and callable(getattr(clattn.fla, name))]
        self.exchanged = set()

    def pytest_collection_modifyitems(self, items):
        for module in {item.module for item in items}:
            for name in self.names:
                if callable(getattr(module, name, None)):
                    setattr(module, name, getattr(clattn.fla, name))
                    self.exchanged.add(name)


def main(checkout, *arguments):
    import pytest
    import torch._dynamo  # noqa: F401  imports the real Triton where that is
    KEPT.update({name: module for name, module in sys.modules.items() if name.split(".")[0] == "triton"})
    for name in KEPT:
        del sys.modules[name]
    sys.meta_path.insert(0, WithoutTriton())
    sys.path.insert(0, str(checkout))
    import fla.utils
    fla.utils.device, fla.utils.device_torch_lib = "cpu", torch.cpu  # it says "cuda" where there is no device
    exchange, status = Exchange(), 0
    for name, wanted in TESTS.items():
        path = pathlib.Path(checkout, "tests", "ops", f"{name}.py")
        chosen = arguments if "-k" in arguments else ("-k", wanted, *arguments)
        status = max(status, pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", str(path), *chosen], [exchange]))
    print(f"functions of clattn.fla in place of fla's: {', '.join(sorted(exchange.exchanged))}")
    return int(status)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
