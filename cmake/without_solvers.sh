#!/usr/bin/env bash
# without_solvers.sh [FOLDER]
#
# Takes each solver of src/solve/list.c out of a copy of the tree in turn: its line, its file or folder in src/solve, and
# its folder in cl. Solvers that share a folder go together, and with them those that build its parts in. Each time library and command must compile and `clattn
# rules` must run. FOLDER (a new one, /tmp by default) has the copy and its build.
#
# Exit: 0 the tree does without each of them, 1 it does not, 2 bad usage.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$(mktemp -d)}
copy=$work/tree build=$work/build

# The file or folder in src/solve that defines a solver.
module_of() { # SOLVER
    local file
    file=$(cd "$root/src/solve" && grep -lRE "struct solver solver_$1 =" . | head -n 1)
    file=${file#./}
    [ -n "$file" ] || { echo "without_solvers.sh: nothing defines solver_$1" >&2; exit 2; }
    echo "${file%%/*}"
}

# Those whose files include a header of the module.
users_of() { # MODULE
    [ -d "$root/src/solve/$1" ] || return 0
    (cd "$root/src/solve" && grep -lRF "\"solve/$1/" . || true) | sed 's|^\./||; s|/.*||'
}

# The module, its users, and theirs.
and_users_of() { # MODULE
    local all=$1 before=
    while [ "$all" != "$before" ]; do
        before=$all
        all=$(for module in $all; do echo "$module"; users_of "$module"; done | sort -u)
    done
    echo "$all"
}

lines=$(sed -n 's/^    X(\([a-z0-9_]*\)).*/\1/p' "$root/src/solve/list.c")
modules=$(for solver in $lines; do module_of "$solver"; done | awk '!seen[$0]++')
failed=0
for module in $modules; do
    rm -rf "$copy" "$build"
    mkdir -p "$copy"
    (cd "$root" && git ls-files -z CMakeLists.txt LICENSE README.md cmake include src cl devices | tar -c --null -T -) |
        tar -x -C "$copy"
    taken=
    for gone in $(and_users_of "$module"); do
        for solver in $lines; do
            [ "$(module_of "$solver")" = "$gone" ] || continue
            sed -i "/^    X($solver)/d" "$copy/src/solve/list.c"
            taken="$taken $solver"
        done
        rm -r "${copy:?}/src/solve/$gone" "$copy/cl/${gone%.c}"
    done
    if cmake -S "$copy" -B "$build" -G Ninja -DCLATTN_BUILD_TESTS=OFF ${CMAKE_OPTIONS:-} >"$work/$module.log" 2>&1 &&
        cmake --build "$build" --target clattn_cli >>"$work/$module.log" 2>&1 &&
        "$build/bin/clattn" rules >"$work/$module.rules" 2>>"$work/$module.log"; then
        echo "without$taken: compiles, and knows $(grep -c . "$work/$module.rules") lines of rules"
    else
        echo "without$taken: FAILED, see $work/$module.log"
        failed=1
    fi
done
exit "$failed"
