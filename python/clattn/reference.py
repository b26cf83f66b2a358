"""Every rule in double precision on the CPU: the functions of clattn with device="reference"."""

import functools

from ._rules import functions as _functions


def _of(function):
    @functools.wraps(function)
    def computed(*args, **keywords):
        if keywords.get("device") not in (None, "reference"):
            raise TypeError(f"clattn.reference.{function.__name__}() has no device: it is the reference")
        return function(*args, **{**keywords, "device": "reference"})
    return computed


globals().update({name: _of(function) for name, function in _functions.items()})
__all__ = list(_functions)
