#!/usr/bin/env bash
# devices_page.sh [--check]: writes docs/devices.md, what is known to work where, from the files that say so: the parameters that
# were measured (src/tune/shipped.json, devices/*.json), the engines (src/device/engine.c), what the offline compilers take
# (tests/project/CMakeLists.txt, cmake/offline_known.txt) and what an emulator executed (tests/amd/executed.txt). With
# --check: says whether it is as they have it, by diff.
set -euo pipefail
cd "$(dirname "$0")/.."

# DEVICE|DRIVER|TYPE|SOLVER of every entry of the files, pretty or not
entries() {
    local text='"[^"]*"'
    cat src/tune/shipped.json devices/*.json | tr -d '\n\t' |
        grep -o "\"device\":$text,\"vendor\":$text,\"driver\":$text,\"group\":$text,\"dtype\":$text,\"solver\":$text" |
        sed -E 's/"device":"([^"]*)".*"driver":"([^"]*)".*"dtype":"([^"]*)","solver":"([^"]*)"/\1|\2|\3|\4/'
}

run() {
    entries | awk -F'|' '
        { key = $1 " | " $2; count[key]++ }
        !seen[key, $3]++ { types[key] = types[key] (types[key] != "" ? ", " : "") $3 }
        !seen[key, $4]++ { solvers[key] = solvers[key] (solvers[key] != "" ? ", " : "") $4 }
        END { for (key in count) print "| " key " | " count[key] " | " types[key] " | " solvers[key] " |" }' | LC_ALL=C sort
}

# Engines whose instructions have a twin: the vendor's generations share the vendor's
emulated() {
    local engines twins
    engines=$(sed -nE 's/^    X\("([a-z0-9_]+)",.*/\1/p' src/device/engine.c)
    twins=$(echo "$engines" | sed -n 's/_emulated$//p')
    for engine in $(echo "$engines" | grep -v '_emulated$\|_threads$\|_shuffles$'); do
        for twin in $twins; do
            case $engine in
            "$twin" | "$twin"_sm*) echo "| \`$engine\` | \`${twin}_emulated\` | \`matrix.$twin\` |" ;;
            esac
        done
    done
}

compiled() {
    local targets
    targets=$(sed -nE 's/^set\(CLATTN_OFFLINE_(TARGETS|INTEL) "([^"]*)".*/\2/p; s/^ *clattn_offline_engine\([a-z0-9_]+ [0-9]+ "?([^")]*)"?\)/\1/p' \
        tests/project/CMakeLists.txt | tr ' ' '\n' | LC_ALL=C sort -u)
    for target in $targets; do
        echo "| $target | $(grep -c "^$target " cmake/offline_known.txt || true) |"
    done
}

# What a compiler takes with private memory kept, or refuses: a row a kernel, with the targets where it does
failed() {
    awk '{ target = $1; sub(/^[^ ]+ /, ""); targets[$0] = targets[$0] (targets[$0] != "" ? ", " : "") target }
        END { for (kernel in targets) print "| " kernel " | " targets[kernel] " |" }' cmake/offline_known.txt | LC_ALL=C sort
}

page() {
    cat <<END
<!-- cmake/devices_page.sh wrote this; the test devices_page holds it to its sources -->
# Devices

What is known to work where. \`clattn verify\` says whether your own device computes every rule right, and the table
of devices in [README.md](../README.md#devices) says where it has been run.

## Measured
Devices with measured parameters (\`clattn tune\`): those that are compiled into the library, and those in devices/.
The test \`devices\` runs every entry as for its device. \`clattn tune --submit FILE\` writes such a file.

| device | driver | entries | types | solvers |
|---|---|---|---|---|
$(run)

## Emulated
Matrix engines that are checked on any device by an emulated twin, which distributes numbers over lanes as the
vendor's manual says.

| engine | twin | test |
|---|---|---|
$(emulated)

## Executed under an emulator
AMD's machine code as clang 19 makes it of the kernels, executed instruction by instruction on a CPU by the tests'
interpreter ([tests/amd](../tests/amd/README.md)). No AMD GPU was at hand. It shows that this code computes the right
numbers: LLVM's lowering, the layout of lanes and of fragments of WMMA and MFMA, indices into local memory, barriers,
accesses out of bounds. It does not show hazards and waits, caches, time, or what the driver's own compiler makes.
\`clattn verify\` was right for every rule below, with the waves of each group in forward and in reverse order. *As it is*:
with the target's matrix engine (WMMA for f16 and bf16; MFMA for f32, too; gfx1030 has none). *Without an engine*: with
\`CLATTN_ENGINE=none\`, which changes nothing where there is no engine for the type. Both are of B=1, T=70, H=2, K=V=32 in
every mode. *Own cases* are those of the command without a shape: more shapes, packed sequences, more options. A dash: not
run.

| target | type | as it is | without an engine | own cases |
|---|---|---|---|---|
$(cat tests/amd/executed.txt)

Of the own cases, \`gated_delta_rule\` in f32 on gfx1100 was run in forward order alone. Right are also the gradients of
every rule that has them in f32, and the layer \`gated_deltanet\` with its gradients, on all five; and the gradients of
\`simple_gla\`, \`gated_delta_rule\` and \`kda\` in bf16 on the matrix engines of gfx1100, gfx1201, gfx942 and gfx90a.
Other layers and larger shapes were not run.

Of the 9,468 kernels of that run these keep private memory: the most bytes of a work-item, and how many of how many.

| kernel | gfx1100 | gfx1201 | gfx1030 | gfx942 | gfx90a |
|---|---|---|---|---|---|
$(cat tests/amd/executed_private.txt)

The tests \`amd.*\` repeat a rule of each kind on gfx1100 and gfx942.

## Compiled
Targets for which the vendor's own compiler, or LLVM, compiles every kernel with its default tiles (tests
\`offline_*\`). The exceptions are kernels that are known to use private memory or to be refused
(cmake/offline_known.txt).

| target | known exceptions |
|---|---|
$(compiled)

## Exceptions
Kernels that use private memory (their registers spill) or are refused. If a compiler refuses a kernel, a plan takes
another solver or other tiles, and \`clattn run -v\` says so. No failure at run time has been reported yet; \`clattn
report\` writes what a report needs.

| kernel | targets |
|---|---|
$(failed)
END
}

if [ "${1-}" = --check ]; then
    page | diff docs/devices.md - || { echo "docs/devices.md is not what bash cmake/devices_page.sh writes" >&2; exit 1; }
else
    page >docs/devices.md
fi
