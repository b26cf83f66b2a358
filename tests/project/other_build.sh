#!/usr/bin/env bash
# other_build.sh clang_build | sanitizers | fuzz: another build of this tree, and what it is for.
set -euo pipefail
cd "$(dirname "$0")/../.."

build() { # PRESET [TARGET…]
    cmake --preset "$1"
    cmake --build --preset "$1" --parallel 2 ${2:+--target "${@:2}"}
}

case $1 in
clang_build)
    build clang
    ;;
sanitizers)
    build debug
    ctest --preset debug --parallel 2
    ;;
fuzz) # half a minute, all targets at once
    mapfile -t targets < <(basename -s .c -a tests/fuzz/fuzz_*.c)
    build fuzz "${targets[@]}"
    running=()
    for target in "${targets[@]}"; do
        corpus=build-fuzz/corpus/$target
        mkdir -p "$corpus"
        "build-fuzz/bin/$target" -max_total_time=20 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "$corpus" tests/fuzz/seeds \
            >"$corpus.log" 2>&1 &
        running+=($!)
    done
    failed=0
    for i in "${!targets[@]}"; do
        wait "${running[$i]}" || failed=1
        tail -n 40 "build-fuzz/corpus/${targets[$i]}.log"
    done
    exit $failed
    ;;
*)
    echo "other_build.sh: unknown build $1" >&2
    exit 2
    ;;
esac
