#!/usr/bin/env bash
# check_platform.sh linux-aarch64 | windows-zig | macos-arm64 | manylinux  OUTPUT CLATTN [CJSON_SOURCE]
# Builds the command, and on Windows and old glibc the library, with that preset (77 without its compiler, or without cJSON's source): no warning.
# What this machine can run of it, by qemu or wine, writes the bytes that CLATTN, this machine's command, writes.
set -euo pipefail
preset=$1 output=$2 native=$(realpath "$3") cjson=${4-}
cd "$(dirname "$0")/../.."
PATH=$PATH:$PWD/build-tools/bin:/usr/lib/wine
cjson=${cjson:-$PWD/build-tools/cjson}
[ -e "$cjson/cJSON.c" ] || { echo "no source of cJSON"; exit 77; }
case $preset in
linux-aarch64) compiler=aarch64-linux-gnu-gcc targets=(clattn_cli) ;;
macos-arm64) compiler=zig targets=(clattn_cli) ;;
*) compiler=zig targets=(clattn_shared clattn_cli) ;;
esac
command -v "$compiler" >/dev/null || { echo "no $compiler"; exit 77; }

mkdir -p "$output"
build=$output/build
source=("-DCLATTN_CJSON_SOURCE=$cjson")
[ "$cjson" != "$PWD/build-tools/cjson" ] || source=() # which the preset finds by itself
cmake --preset "$preset" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O0 "${source[@]}" \
    >"$output/configure.log"
cmake --build "$build" --parallel 2 --target "${targets[@]}" >"$output/build.log" 2>&1 ||
    { grep -B2 -A6 -E 'error|warning' "$output/build.log" | head -60; exit 1; }

# same_bytes RULES COMMAND…: this build's command. The reference's results are the same to the byte.
same_bytes() {
    local rule width
    local rules=$1
    shift
    for rule in $rules; do
        case $("$native" rules "$rule") in # rules without queries and keys have a key_dim of 1
        *'inputs      q '*) width=16 ;;
        *) width=1 ;;
        esac
        "$native" make-input "$rule" --shape B=2,T=40,H=2,K=$width,V=16 -o native.in
        "$native" run "$rule" -d reference -i native.in -o native.out
        "$@" make-input "$rule" --shape B=2,T=40,H=2,K=$width,V=16 -o other.in
        "$@" run "$rule" -d reference -i other.in -o other.out
        cmp native.in other.in
        cmp native.out other.out
    done
    echo "the reference's bytes of: $rules"
}
few="gated_delta_rule rwkv7 mlstm forgetting_attn"
all=$("$native" rules --csv | sed 1d | cut -d, -f1 | paste -sd' ')

cd "$output"
export CLATTN_CACHE_DIR='' CLATTN_TUNING=''
case $preset in
linux-aarch64)
    command -v qemu-aarch64 >/dev/null || { echo "no qemu-aarch64: compiled only"; exit 0; }
    same_bytes "$all" qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/bin/clattn"
    ;;
windows-zig)
    wine=$(command -v wine || command -v wine64) || { echo "no wine: compiled only"; exit 0; }
    export WINEPREFIX=$output/wine WINEDEBUG=-all
    same_bytes "$few" "$wine" "$build/bin/clattn.exe"
    ;;
macos-arm64) # a Mach-O file for arm64, by its first words
    [ "$(od -An -tx1 -N8 "$build/bin/clattn" | tr -d ' ')" = cffaedfe0c000001 ] || { echo "bin/clattn: what is it?"; exit 1; }
    ;;
manylinux) # no symbol of a later glibc
    same_bytes "$all" "$build/bin/clattn"
    for file in bin/clattn lib/libclattn.so; do
        latest=$(objdump -T "$build/$file" | grep -o 'GLIBC_[0-9.]*' | sed s/GLIBC_// | sort -uV | tail -1)
        echo "$file: glibc $latest"
        [ "$(printf '%s\n2.17\n' "$latest" | sort -V | tail -1)" = 2.17 ]
    done
    ;;
esac
