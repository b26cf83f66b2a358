"""bindings_test.py CLATTN LIBRARY INCLUDE FOLDER CC [FLAG ...]: what `clattn rules --json` says is enough for a binding.

From the JSON alone this makes ctypes declarations of every struct, and a C program that prints what the headers say
of the same names: sizes, offsets, enum values and flag bits. Both must agree. Then the binding calls the library: of every
rule the defaults are those that the JSON has, and every option is taken or refused as it says."""

import ctypes
import json
import pathlib
import re
import subprocess
import sys

SCALARS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
           "double": ctypes.c_double, "char": ctypes.c_char, "size": ctypes.c_size_t, "pointer": ctypes.c_void_p,
           "string": ctypes.c_char_p}
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
failures = []


def expect(good, text):
    if not good:
        failures.append(text)


def declare(interface):
    """A ctypes structure for every struct of the JSON, by name."""
    structs = {}

    def type_of(field):
        name = field["type"]
        if name in SCALARS:
            one = SCALARS[name]
        elif name in interface["enums"]:
            one = ctypes.c_int
        else:
            one = structs[name]
        return one * field["count"] if "count" in field else one

    for name, fields in interface["structs"].items():
        members = [(field["name"], type_of(field)) for field in fields]
        structs[name] = type(name, (ctypes.Structure,), {"_fields_": members})
    return structs


def said_by_header(interface, structs, include, folder, compiler):
    """What a C program prints of the names in the JSON: {name: number}."""
    lines = []
    for struct, binding in structs.items():
        lines.append(f'    PRINT("{struct}", sizeof({struct}));')
        lines += [f'    PRINT("{struct}.{name}", offsetof({struct}, {name}));' for name, _ in binding._fields_]
        lines += [f'    PRINT("{struct}.{name} size", sizeof((({struct} *)0)->{name}));' for name, _ in binding._fields_]
    names = [value["name"] for values in interface["enums"].values() for value in values]
    names += [flag["name"] for flag in interface["flags"]]
    lines += [f'    PRINT("{name}", {name});' for name in names]
    source = pathlib.Path(folder, "header.c")
    source.write_text("#include <clattn_layer.h>\n#include <stdio.h>\n"
                      '#define PRINT(name, value) printf("%s=%llu\\n", name, (unsigned long long)(value))\n'
                      "int main(void)\n{\n" + "\n".join(lines) + "\n    return 0;\n}\n")
    program = str(pathlib.Path(folder, "header"))
    subprocess.run([*compiler, f"-I{include}", str(source), "-o", program], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split("=") for line in output.splitlines())}


def said_by_json(interface, structs):
    numbers = {}
    for struct, binding in structs.items():
        numbers[struct] = ctypes.sizeof(binding)
        for name, _ in binding._fields_:
            numbers[f"{struct}.{name}"] = getattr(binding, name).offset
            numbers[f"{struct}.{name} size"] = getattr(binding, name).size
    for values in interface["enums"].values():
        numbers |= {value["name"]: value["value"] for value in values}
    numbers |= {flag["name"]: 1 << flag["bit"] for flag in interface["flags"]}
    return numbers


def check_lists(interface, include):
    """Every flag and every value of an enum that clattn.h has stands in the JSON."""
    header = pathlib.Path(include, "clattn.h").read_text()
    flags = re.findall(r"^#define (CLATTN_\w+) CLATTN_FLAG\((\d+)\)", header, re.M)
    expect({name: int(bit) for name, bit in flags} == {flag["name"]: flag["bit"] for flag in interface["flags"]},
           "the flags of clattn.h are others than those of the JSON")
    for name, values in interface["enums"].items():
        body = re.search(r"typedef enum %s {(.*?)} %s;" % (name, name), header, re.S)
        written = re.findall(r"(CLATTN_\w+) = ", body.group(1) if body else "")
        missing = set(written) - {value["name"] for value in values}
        expect(not missing or name in ("clattn_status", "clattn_rule", "clattn_operand_id"), f"{name} lacks {missing}")


class Binding:
    """clattn_plan_desc_complete of the library, by the structs and values of the JSON."""

    def __init__(self, interface, structs, library):
        self.desc = structs["clattn_plan_desc"]
        self.library = ctypes.CDLL(library)
        self.bits = {flag["name"]: 1 << flag["bit"] for flag in interface["flags"]}
        self.statuses = {value["name"]: value["value"] for value in interface["enums"]["clattn_status"]}
        self.lines = []
        self.log = LOG(lambda user, level, line: self.lines.append(line.decode()))

    def plain(self, rule, keys):
        return self.desc(rule=rule["id"], seq_len=1, heads=1, key_dim=4 if keys else 0, value_dim=4)

    def set(self, desc, option, value):
        if "flag" in option:
            desc.flags |= self.bits[option["flag"]]
        else:
            setattr(desc, option["field"], value)

    def get(self, desc, option):
        return int(desc.flags & self.bits[option["flag"]] != 0) if "flag" in option else getattr(desc, option["field"])

    def complete(self, desc):
        full = self.desc()
        self.lines.clear()
        status = self.library.clattn_plan_desc_complete_sized(ctypes.byref(full), ctypes.byref(desc),
                                                              ctypes.c_size_t(ctypes.sizeof(desc)), self.log, None)
        return status, full


def key(option):
    return option.get("flag") or option["field"]


def other_value(option, rule):
    """A value that is not what 0 stands for, and that this rule may take."""
    if "flag" in option:
        return 1
    if "values" in option:
        mine = [v["value"] for v in option["values"] if v.get("only", rule["name"]) == rule["name"] and v["value"] != 0]
        return mine[0] if mine else None
    return {"double": 0.25}.get(option["type"], 2)


def check_rule(binding, interface, rule):
    plain = binding.plain(rule, any(operand["name"] in ("k", "omega") for operand in rule["operands"]))
    taken = {key(option): option for option in rule["options"]}
    status, full = binding.complete(plain)
    expect(status == binding.statuses["CLATTN_SUCCESS"], f"{rule['name']}: {binding.lines}")
    for option in interface["options"]:
        mine = taken.get(key(option))
        if option["name"] == "rule" or option["type"] in ("uint64", "clattn_operand_type"):
            continue
        desc = type(plain).from_buffer_copy(plain)
        if mine is not None and "with" in mine:
            desc.flags |= binding.bits[mine["with"]]
            status, full = binding.complete(desc)
        if mine is not None and "default" in mine and option.get("said_by", "--option") == "--option":
            number = binding.get(full, option)
            expect(number == mine["default"], f"{rule['name']}: {key(option)} is {number}, not {mine['default']}")
        value = other_value(option, rule)
        if value is None:
            continue
        binding.set(desc, option, value)
        status, _ = binding.complete(desc)
        refused = any("takes no option" in line for line in binding.lines)
        expect(refused == (mine is None), f"{rule['name']}: {key(option)} = {value}, {binding.lines}")
        expect(mine is not None or status == binding.statuses["CLATTN_INVALID_DESC"], f"{rule['name']}: {key(option)}")


def check_operands(command, rule, folder):
    """What a file of the rule has, with options that bring operands, is in the list of its operands."""
    names = {operand["name"] for operand in rule["operands"]}
    options = {option["name"] for option in rule["options"]}
    shape = "B=1,T=5,H=2,V=8" + (",K=8" if names & {"k", "omega"} else "")
    for option in ("", "with_momentum=on", "loss=ln"):
        if option and option.split("=")[0] not in options:
            continue
        path = pathlib.Path(folder, "in.safetensors")
        subprocess.run([command, "make-input", rule["name"], "-s", shape, "-o", str(path)] +
                       (["--option", option] if option else []), check=True, capture_output=True)
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        missing = header.keys() - names - {"__metadata__"}
        expect(not missing, f"{rule['name']} {option}: operands lack {', '.join(sorted(missing))}")


def main(command, library, include, folder, *compiler):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    output = subprocess.run([command, "rules", "--json"], check=True, capture_output=True, text=True).stdout
    interface = json.loads(output)
    structs = declare(interface)
    header = said_by_header(interface, structs, include, folder, compiler)
    ours = said_by_json(interface, structs)
    expect(len(header) > 200, f"{len(header)} numbers are few")
    for name, number in header.items():
        expect(ours[name] == number, f"{name} is {ours[name]} by the JSON, {number} by clattn.h")
    check_lists(interface, include)
    binding = Binding(interface, structs, library)
    for rule in interface["rules"]:
        check_rule(binding, interface, rule)
        check_operands(command, rule, folder)
    for failure in failures:
        print(failure)
    print(f"{len(header)} numbers, {len(interface['rules'])} rules, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
