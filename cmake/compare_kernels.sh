#!/usr/bin/env bash
# compare_kernels.sh [--target T] [--jobs N] OLD NEW
#
# Two folders that clattn_dump_kernels filled, from before and after a change that should leave kernels as they are: for
# each kernel whose instructions differ in number or kind, as clang compiles them for target T (sm_90 by default, or
# gfx…), the counts of both and what there is more (+) or less (-) of. Labels, registers and order are not looked at.
#
#     build/bin/clattn_dump_kernels OLD 0 nvidia kda comba        # an empty folder; before the change
#     build/bin/clattn_dump_kernels NEW 0 nvidia kda comba        # after it
#
# Exit: 0 all alike, 1 some differ or do not compile, 2 bad usage, 77 no compiler.
set -euo pipefail
target=sm_90 jobs=2
while [ $# -gt 2 ]; do
    case $1 in
    --target) target=$2 ;;
    --jobs) jobs=$2 ;;
    *) echo "compare_kernels.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
if [ $# -ne 2 ] || [ ! -d "$1" ] || [ ! -d "$2" ]; then
    echo "usage: compare_kernels.sh [--target T] [--jobs N] OLD NEW" >&2
    exit 2
fi
: "${CLATTN_CLANG:=clang-19}" "${CLATTN_LIBCLC:=/usr/lib/clc}"
command -v "$CLATTN_CLANG" >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "COUNT INSTRUCTION" of a source, sorted by instruction
count() { # SOURCE OUTPUT
    local options=(-target amdgcn-amd-amdhsa -Xclang -mlink-builtin-bitcode -Xclang "$CLATTN_LIBCLC/amdgcn--amdhsa.bc")
    case $target in
    sm_*) options=(-target nvptx64-nvidia-nvcl -Xclang -target-feature -Xclang +ptx80
                   -Xclang -mlink-builtin-bitcode -Xclang "$CLATTN_LIBCLC/nvptx64--nvidiacl.bc") ;;
    esac
    "$CLATTN_CLANG" -w -x cl -cl-std=CL1.2 "${options[@]}" -Xclang -target-cpu -Xclang "$target" -O3 -nogpulib \
        -Xclang -finclude-default-header -S "$1" -o "$2.s" &&
        awk '{ sub(/(\/\/|;[^;]*%bb|; ).*/, "") }
             $1 ~ /^[.@{}]|:$/ && $1 !~ /^@/ || NF == 0 { next }
             { n[$1 ~ /^@/ ? $2 : $1]++ }
             END { for (i in n) print n[i], i }' "$2.s" | sort -k2 >"$2"
    rm -f "$2.s"
}
export -f count
export target CLATTN_CLANG CLATTN_LIBCLC

for side in old new; do
    folder=$1
    [ $side = old ] || folder=$2
    mkdir "$work/$side"
    find "$folder" -maxdepth 1 -name '*.cl' -print0 | sort -z |
        xargs -0 -r -P "$jobs" -I {} bash -c 'count "$1" "$2/$(basename "$1" .cl)"' - {} "$work/$side" || true
done

kernels=0 differ=0
for old in "$work"/old/*; do
    name=$(basename "$old") new=$work/new/$(basename "$old")
    kernels=$((kernels + 1))
    title=$(sed -n '1s|^/\* \(.*\) \*/$|\1|p' "$1/$name.cl")
    if [ ! -s "$old" ] || [ ! -s "$new" ]; then
        echo "$name, $title: not in both, or does not compile"
        differ=$((differ + 1))
    elif ! cmp -s "$old" "$new"; then
        differ=$((differ + 1))
        join -1 2 -2 2 -a 1 -a 2 -e 0 -o 0,1.1,2.1 "$old" "$new" |
            awk -v name="$name, $title" '{ a += $2; b += $3 } $2 != $3 { d = d sprintf(" %+d %s", $3 - $2, $1) }
                                         END { printf "%s: %d, %d:%s\n", name, a, b, d }'
    fi
done
echo "$kernels kernels, $differ differ"
[ "$kernels" -gt 0 ] && [ "$differ" -eq 0 ]
