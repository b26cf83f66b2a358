#!/usr/bin/env bash
# check_abi.sh [--renew] OUTPUT CC [FLAG…]
# Compares the types of the public header with those of the last release of the same soname, which tests/project/abi keeps, by
# abidiff (abigail-tools; 77 without it). Structs may grow at their end, enums may grow; whatever else differs is an
# error. --renew writes the release's file: at a release, and once when the soname changes.
set -euo pipefail
renew=0
if [ "$1" = --renew ]; then
    renew=1
    shift
fi
output=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
kept=$root/tests/project/abi
version=$(sed -n 's/^#define CLATTN_VERSION_M[AI][JN]OR //p' "$root/include/clattn.h" | paste -sd.)
mkdir -p "$output"

command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "no abidw and abidiff"; exit 77; }

"$@" -std=gnu11 -g -O0 -shared -fPIC -I"$root/include" "$kept/types.c" -Wl,--unresolved-symbols=ignore-all \
    -o "$output/types.so"
abidw --no-show-locs --no-corpus-path --no-comp-dir-path "$output/types.so" >"$output/types.xml"
if [ "$renew" = 1 ]; then
    sed "s|path='[^']*/tests/project/abi/|path='tests/project/abi/|" "$output/types.xml" >"$kept/clattn-$version.xml" # no machine's own
    exit
fi
abidiff --suppressions "$kept/suppress.ini" "$kept/clattn-$version.xml" "$output/types.xml"

# A struct that has grown at its end is not looked at further by abidiff: that nothing in it has moved is compared here.
members() {
    awk -F"'" '/<class-decl /   { struct = $2 }
               /<data-member / { for (i = 1; i < NF; i++) if ($i ~ / layout-offset-in-bits=$/) offset = $(i + 1); next }
               /<var-decl / && offset != "" { print struct "." $2 " at bit " offset; offset = "" }' "$1" | sort
}
members "$kept/clattn-$version.xml" >"$output/members.kept"
members "$output/types.xml" >"$output/members.now"
if [ ! -s "$output/members.kept" ] || comm -23 "$output/members.kept" "$output/members.now" | grep .; then
    echo "these fields of the release have moved or are gone" >&2
    exit 1
fi
