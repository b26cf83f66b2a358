#!/usr/bin/env bash
# check_contributing.sh FOLDER DEVICE: in a copy of this tree below FOLDER the patches of examples/patches that add a word
# with a rule that has it, and a solver, build together. The rule is right on the device, on plain kernels and on a matrix
# engine; the solver is taken, and right. The patch of a rule applies.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1 device=$2
rm -rf "$folder"
mkdir -p "$folder"
tar -cf - CMakeLists.txt cmake include src cl LICENSE | tar -C "$folder" -xf -
patch -s --dry-run -d "$folder" -p1 <examples/patches/a_rule.patch
patch -s -d "$folder" -p1 <examples/patches/a_word.patch
patch -s -d "$folder" -p1 <examples/patches/a_solver.patch
cmake -S "$folder" -B "$folder/build" -DCMAKE_BUILD_TYPE=Debug -DCLATTN_BUILD_TESTS=OFF -DCLATTN_INSTALL=OFF >/dev/null
cmake --build "$folder/build" --target clattn_cli >"$folder/log" 2>&1 || { tail -n 30 "$folder/log"; exit 1; }
export CLATTN_CACHE_DIR='' CLATTN_TUNING='' POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
for engine in none amd_cdna_emulated; do
    dtype=bf16
    [ $engine != none ] || dtype=f32
    CLATTN_ENGINE=$engine "$folder/build/bin/clattn" verify gla_prior --device "$device" --dtype $dtype \
        --shape B=2,T=70,H=2,K=32,V=32
done
"$folder/build/bin/clattn" verify rms_norm --device "$device" --dtype bf16 --verbose >"$folder/log" 2>&1 ||
    { tail -n 30 "$folder/log"; exit 1; }
grep -q ' rms_norm_rows .* ok$' "$folder/log" || { echo "the patch's solver was not taken"; exit 1; }
rm -rf "$folder"
