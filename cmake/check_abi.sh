#!/usr/bin/env bash
# check_abi.sh [--renew] NM LIBRARY OUTPUT CC [FLAG…]
# Compares the public header and the library's exported names with those of the last release of the same soname, which
# tests/abi keeps: names by nm, types by abidiff (abigail-tools; 77 without it); and runs a program built with the release's
# header. Structs may grow at their end, enums may grow, functions may join; whatever else differs is an error. --renew
# writes the release's files: at a release, and once when the soname changes.
set -euo pipefail
renew=0
if [ "$1" = --renew ]; then
    renew=1
    shift
fi
nm=$1 library=$2 output=$3
shift 3
root=$(cd "$(dirname "$0")/.." && pwd)
kept=$root/tests/abi
version=$(sed -n 's/^#define CLATTN_VERSION_M[AI][JN]OR //p' "$root/include/clattn.h" | paste -sd.)
mkdir -p "$output"

"$nm" -D -g --defined-only "$library" | sed -n 's/.* \(clattn_[a-z_]*\)$/\1/p' | sort >"$output/symbols"
if [ "$renew" = 0 ]; then
    missing=$(comm -23 "$kept/symbols-$version.txt" "$output/symbols")
    [ -z "$missing" ] || { echo "the library of $version exports no more:" $missing; exit 1; }
fi
# A program of the release
if [ "$renew" = 0 ]; then
    mkdir -p "$output/include"
    cp "$kept/clattn-$version.h" "$output/include/clattn.h"
    "$@" -std=c11 -Wall -Wextra -Werror -I"$output/include" "$kept/program.c" "$library" \
        -Wl,-rpath,"$(dirname "$(realpath "$library")")" -o "$output/program"
    "$output/program"
fi

command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "no abidw and abidiff"; exit 77; }

"$@" -std=gnu11 -g -O0 -shared -fPIC -I"$root/include" "$kept/types.c" -Wl,--unresolved-symbols=ignore-all \
    -o "$output/types.so"
abidw --no-show-locs --no-corpus-path --no-comp-dir-path "$output/types.so" >"$output/types.xml"
if [ "$renew" = 1 ]; then
    sed "s|path='[^']*/tests/abi/|path='tests/abi/|" "$output/types.xml" >"$kept/clattn-$version.xml" # no machine's own
    cp "$output/symbols" "$kept/symbols-$version.txt"
    cp "$root/include/clattn.h" "$kept/clattn-$version.h"
    exit
fi
abidiff --suppressions "$kept/suppress.ini" "$kept/clattn-$version.xml" "$output/types.xml"
