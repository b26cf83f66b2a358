"""clattn: linear attention on any OpenCL device.

    import clattn
    o, state = clattn.gated_delta_rule(q, k, v, g, beta, qk_l2norm=True, output_final_state=True)

One function for every rule (help(clattn.gla) has its formula, shapes and options), over NumPy arrays, PyTorch tensors on
the CPU and arrays with DLPack; tensors that require gradients get them. clattn.reference has the same functions in
double precision, clattn.fla those of flash-linear-attention. `python -m clattn` is the command."""

from . import _interface
from ._interface import Error
from ._plan import Context, Plan, devices
from ._rules import aliases as _aliases, functions as _functions
from ._transformers import patch_transformers
from . import fla, functional, layers, reference  # noqa: E402  after the functions

__version__ = _interface.table["clattn"]
rules = tuple(_functions)
globals().update(_functions)
globals().update({alias: _functions[name] for alias, name in _aliases.items() if alias not in _functions})


def __getattr__(name):
    import difflib
    if hasattr(fla, name) and not name.startswith("_"):
        raise AttributeError(f"module 'clattn' has no {name!r}; clattn.fla has it")
    close = difflib.get_close_matches(name, (*_functions, *_aliases), 1)
    raise AttributeError(f"module 'clattn' has no {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


__all__ = ["Context", "Error", "Plan", "devices", "fla", "functional", "layers", "patch_transformers", "reference", "rules", *_functions]
