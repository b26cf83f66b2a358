#!/usr/bin/env bash
# check_pkg_config.sh PREFIX SOURCE OUTPUT CC [FLAG…]
# Builds SOURCE (a C file, or the C program in a Markdown file) with cc and pkg-config alone, against the shared and the
# static library, and runs it as on a machine without OpenCL: the loader finds files of libOpenCL's names first, and they
# are empty. The program of a page prints "reference" there; with a device, where there is one, it prints "device".
set -euo pipefail
prefix=$1 source=$2 output=$3
shift 3
mkdir -p "$output/no-opencl"
: >"$output/no-opencl/libOpenCL.so.1"
: >"$output/no-opencl/libOpenCL.so"
if [ "${source##*.}" = md ]; then
    # shellcheck disable=SC2016 # backticks of Markdown
    sed -n '/^```c$/,/^```$/{/^```/!p}' "$source" >"$output/program.c"
    source=$output/program.c
    page=1
fi
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name clattn.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir clattn)

# shellcheck disable=SC2046 # flags are words
"$@" -std=c11 "$source" $(pkg-config --cflags --libs clattn) -o "$output/shared"
static=$(pkg-config --static --libs clattn)
# shellcheck disable=SC2086,SC2046
"$@" -std=c11 $(pkg-config --static --cflags clattn) "$source" ${static/-lclattn/-l:libclattn.a} -o "$output/static"

for program in shared static; do
    LD_LIBRARY_PATH=$output/no-opencl:$libdir "$output/$program" | tee "$output/printed"
    if [ "${page-}" ]; then
        grep -q '^reference: success, 511$' "$output/printed"
    fi
    if LD_LIBRARY_PATH=$libdir ldd "$output/$program" | grep OpenCL; then
        echo "$program is linked with libOpenCL" >&2
        exit 1
    fi
done
LD_LIBRARY_PATH=$libdir ldd "$output/shared" | grep libclattn.so.0
if [ "${page-}" ] && LD_LIBRARY_PATH=$libdir "$prefix/bin/clattn" devices >/dev/null; then
    LD_LIBRARY_PATH=$libdir "$output/shared" | tee "$output/printed"
    grep -q '^device: success, 511$' "$output/printed"
fi
