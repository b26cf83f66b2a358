#!/usr/bin/env bash
# check_windows.sh OUTPUT NM CLATTN LIBCJSON [CJSON_SOURCE]
# Builds the library and the command for Windows with mingw-w64 (77 without it): no warning, and no name but clattn_…
# leaves the DLL or the sealed archive. With wine the command runs, and with cJSON's source (build-tools has one) it writes
# the bytes that CLATTN, this machine's command, writes, also on the OpenCL device that wine hands through.
# Without the source stubs of LIBCJSON's functions are linked, which abort. CLATTN_WINDOWS_RULES: those to verify.
set -euo pipefail
output=$1 nm=$2 native=$3 libcjson=$4 cjson_source=${5-}
own=$(dirname "$0")/../../build-tools/cjson
[ -n "$cjson_source" ] || [ ! -e "$own/cJSON.c" ] || cjson_source=$(cd "$own" && pwd)
cc=x86_64-w64-mingw32-gcc
command -v $cc >/dev/null || { echo "no $cc"; exit 77; }
cd "$(dirname "$0")/../.."
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
cmake --build "$build" --parallel 2 --target clattn_shared clattn_sealed clattn_cli >"$output/build.log" || { tail -40 "$output/build.log"; exit 1; }

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
[ -n "$cjson_source" ] || exit 0
windows rules | tr -d '\r' | diff - <("$native" rules)

# Names outside of every code page, in arguments, the environment, files and folders
folder=$output/"snow ☃ é"
rm -rf "$folder"
mkdir "$folder"
cd "$folder"
export CLATTN_CACHE_DIR='' CLATTN_TUNING='' CLATTN_SELF_TEST=0 POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
both() { # the same line on both, and the same bytes
    "$native" "$@" -o native.st
    windows "$@" -o 'windows ☃.st'
    cmp native.st 'windows ☃.st'
}
for rule in gated_delta_rule mlstm; do
    both make-input $rule --shape B=2,T=40,H=2,K=16,V=16
    mv native.st 'in ☃.st'
    both run $rule -d reference -i 'in ☃.st'
done
windows run mlstm -d reference -i 'in ☃.st' -o NUL
if windows run mlstm -i 'none ☃.st' -o out.st 2>message; then exit 1; fi
grep -q 'none ☃.st: No such file' message

# The command's whole life, where wine's OpenCL reaches a device
windows devices | grep -q "Portable Computing Language" || { echo "no PoCL under wine"; exit 0; }
both run mlstm -d Portable -i 'in ☃.st'
windows verify --quick --dtype f32 --device Portable --jobs 2 ${CLATTN_WINDOWS_RULES-} | tee table
[ "$(grep -c ' ok' table)" -gt 0 ]
export CLATTN_CACHE_DIR='cache ☃' CLATTN_TUNING='tuning ☃.json'
windows run mlstm -d Portable -i 'in ☃.st' -o out.st
[ "$(windows cache | grep -c ' ok ')" -gt 0 ]
windows tune linear_attn --dtype f32 --shape H=2,K=16,V=16 --budget 2s --device Portable >/dev/null
grep -q none+none 'tuning ☃.json'
windows cache --clear >/dev/null
[ "$(find 'cache ☃' -name '*.clattn' | wc -l)" = 0 ]
