#!/usr/bin/env bash
# check_windows.sh OUTPUT NM CLATTN LIBCJSON [CJSON_SOURCE]
# Builds the library and the command for Windows with mingw-w64 (77 without it): no warning, and no name but clattn_…
# leaves the DLL or the sealed archive. With wine the command runs, and with cJSON's source it writes the bytes that
# CLATTN, this machine's command, writes. Without the source stubs of LIBCJSON's functions are linked, which abort.
set -euo pipefail
output=$1 nm=$2 native=$3 libcjson=$4 cjson_source=${5-}
cc=x86_64-w64-mingw32-gcc
command -v $cc >/dev/null || { echo "no $cc"; exit 77; }
cd "$(dirname "$0")/.."
mkdir -p "$output"

if [ -n "$cjson_source" ]; then
    cjson=-DCLATTN_CJSON_SOURCE=$cjson_source
else
    "$nm" -D --defined-only "$libcjson" |
        sed -n '1i #include <stdlib.h>
            s/.* T \(cJSON_[A-Za-z0-9_]*\).*/void \1(void){abort();}/p' >"$output/stubs.c"
    $cc -w -c "$output/stubs.c" -o "$output/stubs.o"
    x86_64-w64-mingw32-ar rcs "$output/libcjson.a" "$output/stubs.o"
    cjson=-DCLATTN_CJSON_LIBRARY=$output/libcjson.a
fi
build=$output/build
cmake --preset windows-mingw -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O0 "$cjson" >"$output/configure.log"
cmake --build "$build" --parallel 2

if x86_64-w64-mingw32-nm -g --defined-only "$build/lib/libclattn.a" | awk 'NF == 3 && $3 !~ /^clattn_/' | grep .; then
    echo "the static library defines these" >&2
    exit 1
fi
x86_64-w64-mingw32-objdump -p "$build/bin/libclattn.dll" |
    sed -n '/Ordinal\/Name/,/^$/s/^.*\] //p' | tail -n +2 >"$output/exports"
if grep -v '^clattn_' "$output/exports" || ! grep -q '^clattn_version$' "$output/exports"; then
    echo "the DLL exports these" >&2
    exit 1
fi

PATH=$PATH:/usr/lib/wine
wine=$(command -v wine || command -v wine64) || { echo "no wine"; exit 0; }
export WINEPREFIX=$output/wine WINEDEBUG=-all
windows() { "$wine" "$build/bin/clattn.exe" "$@"; }
windows run --help | tr -d '\r' | diff - <("$native" run --help)
if [ -n "$cjson_source" ]; then
    windows rules | tr -d '\r' | diff - <("$native" rules)
    cd "$output"
    for rule in gated_delta_rule mlstm; do
        "$native" make-input $rule --shape B=2,T=40,H=2,K=16,V=16 -o native.in
        "$native" run $rule -d reference -i native.in -o native.out
        windows make-input $rule --shape B=2,T=40,H=2,K=16,V=16 -o windows.in
        windows run $rule -d reference -i windows.in -o windows.out
        cmp native.in windows.in
        cmp native.out windows.out
    done
fi
