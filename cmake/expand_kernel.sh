#!/usr/bin/env bash
# expand_kernel.sh [--check] DUMP_KERNELS: writes cl/expanded/scan_matrix.simple_gla.txt, the kernel with all its macros
# expanded and its constants in place; DUMP_KERNELS is the program clattn_dump_kernels. --check says whether it is so.
# Exit: 0 all well, 1 it differs, 77 no clang or no clang-format-14.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
kept=$root/cl/expanded/scan_matrix.simple_gla.txt
: "${CLATTN_CLANG:=clang-19}"
check=0
[ "$1" != --check ] || { check=1; shift; }
command -v "$CLATTN_CLANG" >/dev/null && command -v clang-format-14 >/dev/null || exit 77

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$work" 0 nvidia_emulated simple_gla >/dev/null
source=$(grep -lE '^/\* scan_matrix of simple_gla chunk bf16 K=128 V=128 \*/' "$work"/*.cl)
# Constants keep their names, but those that names are made of
constants='^#define ([A-Z][A-Z0-9_]*) (.*)$'
pasted='DATA|GATE|OUT|VEC|ACC|RUN[_0-9]*|KERNEL|LEFT|RIGHT|OUTS|[A-Z_]*(LOCALS|REGISTERS)'
grep -E "$constants" "$source" | grep -vE "^#define ($pasted) " >"$work/constants"
grep -vxFf "$work/constants" "$source" >"$work/named.cl"
{
    cat <<'TEXT'
/* scan_matrix.cl with its words expanded, for simple_gla in bf16 with K = V = 128 on the engine nvidia_emulated: one of
 * the programs that the host puts together. Functions are words in cl/. cmake/expand_kernel.sh writes this file; the
 * test `expanded` keeps it true. The host's constants here:
TEXT
    sed '/#define LOCAL_STRIPS/q' "$work/constants" | sed -E 's/^#define ([A-Z0-9_]+) (.*)$/\1=\2/' | tr '\n' ' ' |
        fold -s -w 112 | sed 's/^/ *     /; s/ *$//'
    printf '\n */\n'
    "$CLATTN_CLANG" -w -E -P -x cl -cl-std=CL1.2 "$work/named.cl" | sed -n '/kernel void/,$p' |
        grep -v '^ *#pragma' | sed 's/;\( *;\)*/;/g' | clang-format-14 --style="file:$root/cl/.clang-format" |
        awk '!NF { next } $0 ~ /^ *;$/ && last !~ /^ *(if|else|for|}? *else)/ { next } { print; last = $0 }'
} >"$work/expanded"
if [ $check = 1 ]; then
    diff -u "$kept" "$work/expanded" || { echo "cmake/expand_kernel.sh $1 writes it again" >&2; exit 1; }
else
    mkdir -p "${kept%/*}"
    cp "$work/expanded" "$kept"
fi
