"""make_stubs.py FOLDER: writes FOLDER/clattn/__init__.pyi, the signatures of the functions that the package makes from the
table of rules."""
import json
import pathlib
import sys

HEAD = '''from typing import Any

from . import fla as fla, functional as functional, layers as layers, reference as reference

Array = Any

class Error(RuntimeError):
    status: str
    lines: list[str]

class Context:
    def __init__(self, device: int | str | None = ..., engine: str | None = ..., cache_dir: str | None = ...,
                 tuning: str | None = ..., cl_context: int | None = ..., cl_device: int | None = ...) -> None: ...

class Plan: ...

def devices() -> list[dict[str, Any]]: ...

rules: tuple[str, ...]
'''


def main(folder):
    package = pathlib.Path(folder, "clattn")
    sys.path.insert(0, str(folder))
    import clattn
    from clattn import _rules
    lines = [HEAD]
    for name, function in _rules.functions.items():
        parameters, starred = [], False
        for parameter in function.__signature__.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                parameters.append("*")
                starred = True
            parameters.append(f"{parameter.name}: {'Array' if parameter.default is parameter.empty else 'Any = ...'}")
        lines.append(f"def {name}({', '.join(parameters)}) -> Any:\n    {json.dumps(_rules.rules[name].row['recurrence'])}\n    ...\n")
    (package / "__init__.pyi").write_text("\n".join(lines))


main(sys.argv[1])
