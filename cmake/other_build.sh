#!/usr/bin/env bash
# other_build.sh clang_build | sanitizers | fuzz: another build of this tree, and what it is for.
set -euo pipefail
cd "$(dirname "$0")/.."

build() { # PRESET
    cmake --preset "$1"
    cmake --build --preset "$1" --parallel 2
}

case $1 in
clang_build)
    build clang
    ;;
sanitizers)
    build debug
    ctest --preset debug
    ;;
fuzz) # a minute for all targets together
    build fuzz
    mapfile -t targets < <(find build-fuzz/bin -name 'fuzz_*' -type f -executable | sort)
    [ ${#targets[@]} -gt 0 ] || { echo "no fuzz target" >&2; exit 1; }
    for target in "${targets[@]}"; do
        corpus=build-fuzz/corpus/$(basename "$target")
        mkdir -p "$corpus"
        "$target" -max_total_time=$((60 / ${#targets[@]})) -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "$corpus" \
            tests/fuzz/seeds
    done
    ;;
*)
    echo "other_build.sh: unknown build $1" >&2
    exit 2
    ;;
esac
