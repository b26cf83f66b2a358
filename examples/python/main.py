#!/usr/bin/env python3
"""gated_delta_rule from Python, by ctypes: main.py [CLATTN LIBRARY]

The declarations are made from what `clattn rules --json` says, so nothing of clattn.h is repeated here. The operands
are memory of the host: ctypes arrays here; of a NumPy array or a PyTorch tensor take the address and the bytes,
array.ctypes.data and array.nbytes, or tensor.data_ptr() and tensor.nbytes. Computed by the first OpenCL device, and by
the reference.
"""
import ctypes
import json
import math
import subprocess
import sys


class Clattn:
    """The library's functions, structs, and the numbers of its names without CLATTN_: number["Q"]."""

    def __init__(self, command="clattn", library="libclattn.so"):
        interface = json.loads(subprocess.run([command, "rules", "--json"], check=True, capture_output=True).stdout)
        self.library = ctypes.CDLL(library)
        self.log = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
            lambda user, level, message: print(message.decode(), file=sys.stderr))
        values = [value for enum in interface["enums"].values() for value in enum]
        self.number = {value["name"].removeprefix("CLATTN_"): value["value"] for value in values}
        self.flag = {flag["name"].removeprefix("CLATTN_"): 1 << flag["bit"] for flag in interface["flags"]}
        types = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
                 "double": ctypes.c_double, "char": ctypes.c_char, "size": ctypes.c_size_t, "pointer": ctypes.c_void_p,
                 "string": ctypes.c_char_p}
        types.update(dict.fromkeys(interface["enums"], ctypes.c_int))
        for name, fields in interface["structs"].items():
            members = [(f["name"], types[f["type"]] * f["count"] if "count" in f else types[f["type"]]) for f in fields]
            types[name] = type(name, (ctypes.Structure,), {"_fields_": members})
        self.desc, self.operand, self.call = (types[f"clattn_{name}"] for name in ("plan_desc", "operand", "call"))

    def check(self, status):
        if status != self.number["SUCCESS"]:
            self.library.clattn_status_text.restype = ctypes.c_char_p
            raise RuntimeError(self.library.clattn_status_text(status).decode())

    def call_of(self, tensors, seq_len):
        """A call of these operands, {name: ctypes array}. Always say the size: 0 is not checked."""
        operands = (self.operand * len(tensors))(*(
            self.operand(id=self.number[name], host=ctypes.addressof(data), size=ctypes.sizeof(data))
            for name, data in tensors.items()))
        call = self.call(operands=ctypes.addressof(operands), operand_count=len(operands), seq_len=seq_len)
        return call, operands  # the call points to the operands: keep both

    def reference(self, desc, call):
        self.check(self.library.clattn_reference_sized(
            ctypes.byref(desc), ctypes.c_size_t(ctypes.sizeof(desc)), ctypes.byref(call),
            ctypes.c_size_t(ctypes.sizeof(call)), ctypes.c_size_t(ctypes.sizeof(self.operand)), self.log, None))

    def run(self, desc, call):
        """A plan for the best device, and one call of it. A program keeps context and plan."""
        context, plan = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self.check(self.library.clattn_context_create_sized(ctypes.byref(context), None, ctypes.c_size_t(0)))
            self.check(self.library.clattn_plan_create_sized(ctypes.byref(plan), context, ctypes.byref(desc),
                                                             ctypes.c_size_t(ctypes.sizeof(desc))))
            self.check(self.library.clattn_run_sized(plan, ctypes.byref(call), ctypes.c_size_t(ctypes.sizeof(call)),
                                                     ctypes.c_size_t(ctypes.sizeof(self.operand))))
        finally:
            self.library.clattn_plan_destroy(plan)
            self.library.clattn_context_destroy(context)


def main(*paths):
    clattn = Clattn(*paths)
    tokens, heads, key_dim, value_dim = 100, 2, 16, 16

    def floats(count, value):
        return (ctypes.c_float * count)(*map(value, range(count)))

    tensors = {"Q": floats(tokens * heads * key_dim, math.cos),
               "K": floats(tokens * heads * key_dim, lambda n: math.sin(7 * n)),
               "V": floats(tokens * heads * value_dim, lambda n: math.sin(3 * n)),
               "G": floats(tokens * heads, lambda n: -0.01 * (n % 10)),
               "BETA": floats(tokens * heads, lambda n: 0.5),
               "O": floats(tokens * heads * value_dim, lambda n: 0)}
    desc = clattn.desc(rule=clattn.number["GATED_DELTA_RULE"], flags=clattn.flag["QK_L2NORM"], seq_len=tokens,
                       heads=heads, key_dim=key_dim, value_dim=value_dim)
    call, _operands = clattn.call_of(tensors, tokens)
    clattn.run(desc, call)
    on_device = list(tensors["O"])
    clattn.reference(desc, call)
    worst = max(abs(a - b) for a, b in zip(on_device, tensors["O"]))
    print(f"the last o is {on_device[-1]:.6f} on the device; at most {worst:.1e} from the reference")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
