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
fuzz) # half a minute, all targets at once
    build fuzz
    mapfile -t targets < <(find build-fuzz/bin -name 'fuzz_*' -type f -executable | sort)
    [ ${#targets[@]} -gt 0 ] || { echo "no fuzz target" >&2; exit 1; }
    running=()
    for target in "${targets[@]}"; do
        corpus=build-fuzz/corpus/$(basename "$target")
        mkdir -p "$corpus"
        "$target" -max_total_time=20 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "$corpus" tests/fuzz/seeds \
            >"$corpus.log" 2>&1 &
        running+=($!)
    done
    failed=0
    for i in "${!targets[@]}"; do
        wait "${running[$i]}" || failed=1
        tail -n 40 "build-fuzz/corpus/$(basename "${targets[$i]}").log"
    done
    exit $failed
    ;;
*)
    echo "other_build.sh: unknown build $1" >&2
    exit 2
    ;;
esac
