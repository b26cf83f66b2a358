#!/usr/bin/env bash
# check_sanitizers.sh [SECONDS]: the tree under clang with sanitizers (77 without clang, or without its runtime libraries):
# it builds without a warning, the host's tests pass, and the fuzz targets find nothing in so many seconds (10). With fewer
# than 10, tests that only compute much are left out: others pass through the same code. So are the seeds' mutants, where the
# fuzz targets themselves run.
set -euo pipefail
seconds=${1:-10}
numbers='causality|list|views' # for minutes
left="($numbers)\.reference"
[ "$seconds" -ge 10 ] ||
    left="($numbers|dims|rope|lact|families|states|types|nodes|noncausal)\.reference|choices|adjoint|invariance\.reference\..*|fuzz_.*"
cd "$(dirname "$0")/../.."
echo 'int LLVMFuzzerTestOneInput(const char *data, long size) { return data == 0 && size < 0; }' |
    clang -x c - -fsanitize=fuzzer,address,undefined -o /dev/null || { echo "no clang with libFuzzer"; exit 77; }

cmake --preset fuzz
cmake --build --preset fuzz --parallel 2
ctest --preset fuzz --parallel 2 -E "^($left)\$"

running=()
mapfile -t targets < <(basename -s .c -a tests/fuzz/fuzz_*.c)
for target in "${targets[@]}"; do
    corpus=build-fuzz/corpus/$target
    mkdir -p "$corpus"
    "build-fuzz/bin/$target" -max_total_time=$seconds -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "$corpus" tests/fuzz/seeds \
        >"$corpus.log" 2>&1 &
    running+=($!)
done
failed=0
for i in "${!targets[@]}"; do
    wait "${running[$i]}" || failed=1
    tail -n 40 "build-fuzz/corpus/${targets[$i]}.log"
done
exit $failed
