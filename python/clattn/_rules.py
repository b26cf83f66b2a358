"""A function for every rule, made from the table of rules.

A function takes the rule's inputs by their names, then its options: scale, qk_l2norm, gate_map, … as
`clattn rules RULE` and docs/rules.md list them. Sizes come from the arrays."""

import ctypes
import difflib
import inspect
import math

from . import _interface as c
from ._arrays import Empty, array, is_compiling, wants_gradients
from ._plan import run

# Dims of operands, by the letters of the table, and the fields of a desc that they fill
_FIELDS = {"B": "batch", "T": "seq_len", "H": "heads", "HQ": "qk_heads", "HK": "kv_heads", "TK": "kv_len", "K": "key_dim",
           "V": "value_dim", "W": "taps", "F": "hidden_dim", "L": "levels"}
_SIZES = set(_FIELDS.values()) | {"sequences", "state_slots", "rule", "dtype", "gate_dtype", "flags", "pass", "mode",
                                  "operand_type_count", "operand_types"}
_MOST_PREPARED = 1024
_KEPT = {"hidden_dim", "taps"}  # sizes that an option may give, too


def alternatives(operand):
    return [shape.strip("[]").split(",") for shape in operand["shape"].split(" or ")]


class Rule:
    def __init__(self, row):
        self.row, self.name, self._prepared = row, row["name"], {}
        self.inputs = [operand for operand in row["operands"] if not operand["output"]]
        self.outputs = [operand["name"] for operand in row["operands"] if operand["output"]]
        self.has_backward = any(option["name"] == "pass" and "usage" in option for option in row["options"])
        by_key = [(option.get("flag") or option["field"], option) for option in row["options"]]
        shown = {key: c.options[key].get("operand") for key, _ in by_key}
        self.by_operand = {operand: key for key, operand in shown.items() if operand}
        self.states = {tensor["before"] for tensor in row["state"] if not tensor["required"]}
        self.words = {}  # the keyword of each option that no operand says: its key
        for key, option in by_key:
            if shown[key] or key in _SIZES - _KEPT or option["name"] in ("varlen", "cu_seqlens", "final_state", "initial_state"):
                continue
            self.words["tiled" if key == "CLATTN_HEADS_TILED" else "gate_per_head" if key == "CLATTN_GATE_PER_HEAD" else
                       "state_vk" if key == "CLATTN_STATE_VK" else option["name"]] = key

    def output_names(self, requested):
        """Names of the outputs of a call that can have gradients, o first."""
        return ["o", *(name for name in self.outputs if name != "o" and (name in requested or name.startswith("final_")))]

    # ---- The desc of a call ----

    def _unify(self, arrays, steps):
        """The letters' numbers, from the shapes."""
        found, said = {}, {}
        for operand in self.inputs:
            array = arrays.get(operand["name"])
            if array is None or operand["name"].startswith("initial_") or operand["storage"] in ("i32", "i32 or i64"):
                continue
            fitting = [dims for dims in alternatives(operand) if len(dims) == len(array.shape)]
            if not fitting:
                raise ValueError(f"{self.name}: {operand['name']} has shape {list(array.shape)}; it is {operand['shape']}")
            for letter, number in zip(fitting[0], array.shape):
                if number == 0:
                    raise ValueError(f"{self.name}: {operand['name']} has shape {list(array.shape)}: {letter} is 0")
                number, letter = (number // steps, "T") if letter == "T*n" else (2 * number, "V") if letter == "V/2" else (
                    number, letter)
                if letter in _FIELDS and found.setdefault(letter, number) != number:
                    self._shared(found, arrays, letter, operand, number, said)
                said.setdefault(letter, operand["name"])
        return found

    def _shared(self, found, arrays, letter, operand, number, said):
        """Fewer heads of k and v than of q share a state; anything else is a mistake."""
        if letter in ("H", "HQ") and {"q", "k", "v"} <= arrays.keys() and "kv_heads" in {o.get("field") for o in self.row["options"]}:
            q, k = arrays["q"].shape[2], arrays["k"].shape[2]
            if k < q and number in (q, k):
                found.update(H=q, HQ=q, HK=k)
                return
        raise ValueError(f"{self.name}: {operand['name']} has {letter} = {number}, {said.get(letter)} has {found[letter]}")

    def desc(self, arrays, options, requested, direction):
        """A completed desc. requested: outputs besides o."""
        desc = c.Desc(rule=self.row["id"])
        setattr(desc, "pass", direction)
        for word, value in options.items():
            if value is not None:
                self._put(desc, word, value)
        for letter, number in self._unify(arrays, max(desc.steps, 1)).items():
            if not (letter == "TK" and number == arrays["q"].shape[1]):
                setattr(desc, _FIELDS[letter], number)
        if desc.kv_heads and "q" in arrays and "HK" not in "".join(o["shape"] for o in self.inputs):
            desc.qk_heads = desc.heads = arrays["q"].shape[2]
        for operand in self.inputs:
            flag = "CLATTN_INITIAL_STATE" if operand["name"] in self.states else self.by_operand.get(operand["name"])
            if arrays.get(operand["name"]) is not None and flag:
                desc.flags |= c.flags[flag]
        self._types(desc, arrays)
        self._indices(desc, arrays)
        if "final_state" in requested:
            desc.flags |= c.flags["CLATTN_FINAL_STATE"]
        return c.complete(desc)

    def _put(self, desc, word, value):
        key = self.words.get(word)
        if key is None:
            raise TypeError(f"{self.name}() has no option {word!r}")
        if key in c.flags:
            if value not in (True, False):
                raise ValueError(f"{self.name}: {word} is True or False, not {value!r}")
            desc.flags |= c.flags[key] if value else 0
            return
        values = {entry["word"]: entry["value"] for entry in c.options[key].get("values", ())}
        if isinstance(value, str) and value in values:
            value = values[value]
        try:
            setattr(desc, key, value)
        except TypeError:
            expected = "one of " + ", ".join(values) if values else "a number"
            raise ValueError(f"{self.name}: {word} is {expected}, not {value!r}") from None

    def _indices(self, desc, arrays):
        if "cu_seqlens" in arrays:
            desc.flags |= c.flags["CLATTN_CU_SEQLENS"]
            if arrays["cu_seqlens"].type_name == "int64":
                desc.flags |= c.flags["CLATTN_CU_SEQLENS_INT64"]
            desc.sequences = arrays["cu_seqlens"].shape[0] - 1
        if "state_indices" in arrays and "initial_state" in arrays:
            desc.state_slots = arrays["initial_state"].shape[0]

    def _types(self, desc, arrays):
        """dtype and gate_dtype are those of the first of a storage; what differs is said by operand."""
        first = {}
        for operand in self.inputs:
            if operand["name"] not in arrays:
                continue
            arrays[operand["name"]].require(operand["storage"], self.name)
            if operand["storage"] in ("data", "gate"):
                first.setdefault(operand["storage"], arrays[operand["name"]].type)
        desc.dtype = first.get("data", c.F32)
        desc.gate_dtype = first.get("gate", c.F32)
        others = [(operand["name"], arrays[operand["name"]].type) for operand in self.inputs
                  if operand["name"] in arrays and operand["storage"] in ("data", "gate", "f32")
                  and arrays[operand["name"]].type != {"data": desc.dtype, "gate": desc.gate_dtype}.get(operand["storage"], c.F32)]
        for i, (name, dtype) in enumerate(others):
            desc.operand_types[i] = c.OperandType(id=c.ids[name], dtype=dtype)
        desc.operand_type_count = len(others)

    # ---- The call ----

    def prepare(self, arrays, options, requested, direction):
        """What a call of arrays of these shapes and types needs, worked out once."""
        key = (direction, *((name, array.shape, array.type_name) for name, array in arrays.items()),
               *options.items(), *requested)
        try:
            return self._prepared[key]
        except KeyError:
            pass
        if len(self._prepared) >= _MOST_PREPARED:
            self._prepared.clear()
        prepared = self._prepared[key] = _Prepared(self, self.desc(arrays, options, requested, direction), arrays)
        return prepared


class _Prepared:
    """A completed desc and its operands: inputs were checked against their dims, outputs are to be made."""

    def __init__(self, rule, desc, arrays):
        self.desc, self.key, self.inputs, described = desc, bytes(desc), [], []
        required = {o["name"] for o in rule.inputs if o["required"]}
        names = {c.ids[o["name"]]: o["name"] for o in rule.row["operands"]}
        integers = {o["name"] for o in rule.row["operands"] if o["storage"] == "i32"}
        names.update({c.GRADIENTS + number: f"d_{name}" for number, name in list(names.items())})
        for number, name in names.items():
            info = c.describe(desc, number)
            if info is None:
                # The backward pass reads o only where o is divided, and gradients only of outputs that the desc has.
                # An option may leave out what the rule has otherwise.
                if name in arrays and name != "o" and not name.startswith("d_") and name not in required:
                    raise ValueError(f"{rule.name}: {name} is not used with these options")
                continue
            dims, dtype, size, output = info
            if output:
                described.append((number, name, dims, "int32" if name in integers else dtype, size))
                continue
            if name not in arrays:
                raise TypeError(f"{rule.name}: {name} is missing")
            if arrays[name].shape != dims:
                other = "; state_vk=True takes [V,K]" if name == "initial_state" and dims[-2:] == arrays[name].shape[:-3:-1] else ""
                raise ValueError(f"{rule.name}: {name} has shape {list(arrays[name].shape)}, not {list(dims)}{other}")
            self.inputs.append((number, name))
        rows = [(number, arrays[name].bytes) for number, name in self.inputs]
        rows += [(number, math.prod(dims) * size) for number, _, dims, _, size in described]
        self.outputs = [output[:4] for output in described]
        self._list = c.Operand * len(rows)
        self._operands = self._list(*(c.Operand(id=number, size=size) for number, size in rows))

    def call(self):
        """A call with its operands, which have no memory yet: inputs, then outputs."""
        operands = self._list.from_buffer_copy(self._operands)
        return operands, c.Call(operands=ctypes.addressof(operands), operand_count=len(operands), seq_len=self.desc.seq_len)

    def compute(self, arrays, like, device):
        """{name: array} of the outputs. like: the first input."""
        if next(iter(arrays.values())).on_device:
            from ._cl import compute
            return compute(self, arrays, like, device)
        made = [Empty(like, name, dims, dtype) for _, name, dims, dtype in self.outputs]
        operands, call = self.call()
        for operand, array in zip(operands, (*(arrays[name] for _, name in self.inputs), *made)):
            if array.on_device:
                raise TypeError(f"{array.name} is a pyopencl array, the first one an array of the host")
            operand.host = array.pointer
        run(self.desc, self.key, call, device)
        return {array.name: array.data for array in made}


def _call(rule, direction, values, options, device, requested):
    for word, value in options.items():
        if not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"{rule.name}: {word} is a number, a word or a truth value, not {type(value).__name__}")
    arrays = {name: array(name, x) for name, x in values.items() if x is not None}
    like = next(iter(values.values()))
    return rule.prepare(arrays, options, requested, direction).compute(arrays, like, device)


def forward(rule, values, options, device, requested):
    return _call(rule, c.FORWARD, values, options, device, requested)


def backward(rule, values, options, device, requested):
    """As forward, of {input: …, d_o: …}; by the reference where the device has no kernel of it."""
    try:
        return _call(rule, c.BACKWARD, values, options, device, requested)
    except c.Error as error:
        if error.status != "UNSUPPORTED":
            raise
        return _call(rule, c.BACKWARD, values, options, "reference", requested)


def _docstring(rule):
    row, lines = rule.row, []
    lines.append(f"{row['recurrence']}\n\n{row['paper']}\n\nInputs:")
    lines += [f"    {o['name']:<20}{o['shape']}, {o['storage']}{'' if o['required'] else ', optional'}" for o in rule.inputs]
    lines.append("B batch, T tokens, H heads of v and o, HQ of q and k, HK of k and v where fewer share a state, N sequences, M states of a "
                 "pool. Gates are logarithms of decays, at most 0, without a gate_map. An initial state is [N,H,K,V]; [N,H,V,K] with "
                 "state_vk; with state_indices a pool [M,...]. final_state has its shape.")
    lines.append("Outputs: " + ", ".join(f"{o['name']} {o['shape']}" for o in row["operands"] if o["output"] and o["required"])
                 + "; a tuple of all with output_final_state or with an option that adds one.")
    lines.append("Options, as keywords:")
    defaults = {option.get("flag") or option["field"]: option.get("depends", option.get("default")) for option in row["options"]}
    for word, key in rule.words.items():
        only = (entry["word"] for entry in c.options[key].get("values", ()) if entry.get("only", rule.name) == rule.name)
        values = "True or False" if key in c.flags else ", ".join(only)
        default = "" if key in c.flags or values or defaults[key] is None else f" [{defaults[key]}]"
        lines.append(f"    {word:<20}{c.options[key]['help']}{': ' + values if values else ''}{default}")
    lines.append("    0 stands for an option's default.")
    lines.append("    device              an index or a name of clattn.devices(), a clattn.Context, or \"reference\"")
    lines += [f"Note: {note}" for note in row["notes"]]
    return "\n".join(lines)


def _signature(rule):
    kinds = inspect.Parameter
    parameters = [kinds(o["name"], kinds.POSITIONAL_OR_KEYWORD) for o in rule.inputs if o["required"]]
    parameters += [kinds(o["name"], kinds.KEYWORD_ONLY, default=None) for o in rule.inputs if not o["required"]]
    words = [word for word in rule.words if word not in {p.name for p in parameters}]
    if "final_state" in rule.outputs:
        words.append("output_final_state")
    parameters += [kinds(word, kinds.KEYWORD_ONLY, default=None) for word in (*words, "device")]
    return inspect.Signature(parameters)


def _make(rule):
    signature = _signature(rule)
    inputs = [o["name"] for o in rule.inputs]
    required = [o["name"] for o in rule.inputs if o["required"]]
    required_set = set(required)
    parameters = dict(signature.parameters)

    def function(*args, **keywords):
        if len(args) > len(required):
            raise TypeError(f"{rule.name}() takes {', '.join(required)} by position; the rest are keywords")
        given = dict(zip(required, args))
        for word, value in keywords.items():
            if word in given:
                raise TypeError(f"{rule.name}() got {word} twice")
            if word not in parameters:
                close = difflib.get_close_matches(word, parameters, 1)
                hint = f"; did you mean {close[0]}?" if close else "; help() lists its options"
                raise TypeError(f"{rule.name}() has no {word!r}{hint}")
            if value is not None:
                given[word] = value
        if not given.keys() >= required_set:
            for name in required_set - given.keys():
                raise TypeError(f"{rule.name}() needs {name}: its inputs are {', '.join(required)}")
        device = given.pop("device", None)
        wanted = given.pop("output_final_state", False)
        if wanted not in (True, False):
            raise ValueError(f"{rule.name}: output_final_state is True or False, not {wanted!r}")
        requested = ("final_state",) if wanted else ()
        values = {name: given.pop(name) for name in inputs if name in given}
        if is_compiling():
            from ._compiled import call
            outputs = call(rule.name, values, given, device, requested)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        if wants_gradients(values.values()):
            from ._torch import differentiable
            outputs = differentiable(rule, values, given, device, requested)
        else:
            outputs = forward(rule, values, given, device, requested)
        return next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())

    function.__name__ = function.__qualname__ = rule.name
    function.__module__ = "clattn"
    function.__doc__ = _docstring(rule)
    function.__signature__ = signature
    return function


rules = {name: Rule(row) for name, row in c.rules.items()}
functions = {name: _make(rule) for name, rule in rules.items()}
aliases = {alias: name for name, rule in rules.items() for alias in rule.row["aliases"] if alias.isidentifier()}
