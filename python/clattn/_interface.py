"""The C interface, declared from interface.json: what `clattn rules --json` printed when the package was built.

Nothing of clattn.h is repeated here: structs, enums, flags and the table of rules all come from the file."""

import ctypes
import json
import os
import pathlib

FOLDER = pathlib.Path(__file__).parent

_SCALARS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
            "double": ctypes.c_double, "char": ctypes.c_char, "size": ctypes.c_size_t, "pointer": ctypes.c_void_p,
            "string": ctypes.c_char_p}

LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


def _read():
    with open(os.environ.get("CLATTN_INTERFACE") or FOLDER / "interface.json", encoding="utf-8") as file:
        return json.load(file)


table = _read()
enums = {name: {value["name"].removeprefix("CLATTN_"): value["value"] for value in values}
         for name, values in table["enums"].items()}
flags = {flag["name"]: 1 << flag["bit"] for flag in table["flags"]}
ids = {operand["name"]: operand["id"] for operand in table["operands"]}
options = {(option.get("flag") or option["field"]): option for option in table["options"]}
rules = {rule["name"]: rule for rule in table["rules"]}

F32, F16, BF16 = (enums["clattn_dtype"][name] for name in ("F32", "F16", "BF16"))
FORWARD, BACKWARD = (enums["clattn_pass"][name] for name in ("PASS_FORWARD", "PASS_BACKWARD"))
GRADIENTS = enums["clattn_operand_id"]["GRADIENTS"]


def _declare():
    structs = {}

    def type_of(field):
        name = field["type"]
        one = _SCALARS.get(name) or structs.get(name) or ctypes.c_int  # the rest are enums
        return one * field["count"] if "count" in field else one

    for name, fields in table["structs"].items():
        members = [(field["name"], type_of(field)) for field in fields]
        structs[name] = type(name, (ctypes.Structure,), {"_fields_": members})
    return structs


_structs = _declare()
Desc, Operand, OperandType, OperandInfo, Call, DeviceInfo, ContextDesc, PlanInfo = (
    _structs[f"clattn_{name}"] for name in ("plan_desc", "operand", "operand_type", "operand_info", "call", "device_info",
                                            "context_desc", "plan_info"))
LayerInfo, LayerDesc, LayerTensor, LayerPart, LayerOperand, LayerCall = (
    _structs[f"clattn_layer_{name}"] for name in ("info", "desc", "tensor", "part", "operand", "call"))


class Error(RuntimeError):
    """A call of the library that failed. `status` is the status's name, as "INVALID_DESC"; `lines` are its messages."""

    def __init__(self, status, lines):
        self.status, self.lines = status, list(lines)
        super().__init__("; ".join(self.lines) or status)


def _open():
    names = [os.environ["CLATTN_LIBRARY"]] if "CLATTN_LIBRARY" in os.environ else []
    names += [str(path) for pattern in ("libclattn.so*", "libclattn.dylib", "clattn.dll", "libclattn.dll")
              for path in sorted(FOLDER.glob(pattern))]
    return ctypes.CDLL(names[0] if names else "libclattn.so")


library = _open()
library.clattn_status_text.restype = ctypes.c_char_p
_status_names = {value: name for name, value in enums["clattn_status"].items()}


def size_of(struct):
    return ctypes.c_size_t(ctypes.sizeof(struct))


class Log:
    """Collects the errors and warnings of a call."""

    def __init__(self):
        self.lines = []
        self.callback = LOG(self._add)

    def _add(self, user, level, line):
        if level < 2:  # CLATTN_LOG_INFO
            self.lines.append(line.decode("utf-8", "replace"))

    def check(self, status):
        if status != 0:
            text = library.clattn_status_text(status).decode()
            raise Error(_status_names.get(status, str(status)), self.lines or [text])


def copy_of(desc):
    return Desc.from_buffer_copy(desc)


def complete(desc):
    """A desc with all defaults, checked."""
    log, full = Log(), Desc()
    log.check(library.clattn_plan_desc_complete_sized(ctypes.byref(full), ctypes.byref(desc), size_of(Desc), log.callback,
                                                      None))
    return full


def describe(desc, number):
    """(dims, dtype, element size, whether it is written) of an operand of the desc, or None where it has none."""
    info, log = OperandInfo(), Log()
    log.check(library.clattn_operand_describe_sized(ctypes.byref(desc), size_of(Desc), number, ctypes.byref(info),
                                                    size_of(OperandInfo)))
    if info.rank == 0:
        return None
    return tuple(info.dims[:info.rank]), info.dtype, info.element_size, bool(info.output)
