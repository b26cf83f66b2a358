#!/usr/bin/env bash
# offline_compile.sh [--strict] [--once] [--skip REGEX] [--jobs N] [--targets "T …"] DIRECTORY
#
# Compiles every DIRECTORY/*.cl with the compilers of devices that this machine need not have, and fails when one is
# refused or keeps private memory: registers that spill, or an array that the compiler could not keep in registers.
# The first line of a source is a comment with its name; sources that are equal but for it are compiled once.
# The second is a comment with the options that the library builds it with, for ocloc.
# --once: a kernel of a rule once in each type and size, whatever the rule's options.
# --skip: without the sources whose first line matches.
#
#   AMD     gfx…     clang-19 with libclc
#   Intel   skl tgllp dg2 pvc …   ocloc
#   NVIDIA  sm_…     clang-19 with libclc to PTX, then ptxas where there is one
#
# Spills that are known and stand to be mended are the lines "TARGET NAME" of offline_known.txt beside this script.
#
# Exit: 0 all well, 1 a kernel failed, 2 bad usage, 77 no compiler at all (with --strict: one is missing).
set -euo pipefail

targets="gfx90a gfx942 gfx1030 gfx1100 skl tgllp dg2 pvc sm_80"
jobs=2
strict=0
once=0
skip='^$'
self=${BASH_SOURCE[0]}
known=$(dirname "$self")/offline_known.txt
: "${CLATTN_CLANG:=clang-19}" "${CLATTN_OCLOC:=ocloc}" "${CLATTN_PTXAS:=ptxas}" "${CLATTN_LIBCLC:=/usr/lib/clc}"

clang_to() { # TRIPLE CPU LIBRARY SOURCE OUTPUT [OPTION …]
    "$CLATTN_CLANG" -w -x cl -cl-std=CL1.2 -target "$1" -Xclang -target-cpu -Xclang "$2" -O3 -nogpulib \
        -Xclang -finclude-default-header -Xclang -mlink-builtin-bitcode -Xclang "$CLATTN_LIBCLC/$3" -S "$4" -o "$5" "${@:6}"
}

# Each prints "REGISTERS PRIVATE", private memory in bytes or spilled registers, of the source's worst kernel. AMD's scalar
# registers spill into lanes of a vector register: that is no memory, unless the private segment says so.
compile_amd() { # TARGET SOURCE DIRECTORY
    clang_to amdgcn-amd-amdhsa "$1" amdgcn--amdhsa.bc "$2" "$3/out.s" || return 1
    awk '$1 == ".vgpr_count:" && $2 > registers { registers = $2 }
         $1 == ".vgpr_spill_count:" || $1 == ".private_segment_fixed_size:" {
             if ($2 > spilled) spilled = $2
         }
         END { print registers + 0, spilled + 0 }' "$3/out.s"
}

# Bytes of private memory in a patch list as ocloc writes it: token 18 holds a thread's scratch space in its second word,
# token 38 a work-item's private memory in its fourth.
intel_private() { # PTM.txt
    awk 'function hex(text,  i, value) {
             for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
             return value
         }
         $2 == "Token" { at = $3 == 18 ? 6 : $3 == 38 ? 14 : 0 }
         $1 == "Hex" && at {
             bytes = hex($at) + 256 * (hex($(at + 1)) + 256 * (hex($(at + 2)) + 256 * hex($(at + 3))))
             if (bytes > most) most = bytes
         }
         END { print most + 0 }' "$1"
}

compile_intel() { # TARGET SOURCE DIRECTORY
    local sub_group=8 options # the narrowest, as the library asks for
    [ "$1" != pvc ] || sub_group=16
    sed "s/^#define SUB_GROUP .*/#define SUB_GROUP $sub_group/" "$2" >"$3/kernel.cl"
    options=$(sed -n '2s|^/\* options: \(.*\) \*/$|\1|p' "$2")
    if ! "$CLATTN_OCLOC" compile -file "$3/kernel.cl" -device "$1" -options "${options:--cl-std=CL1.2}" -out_dir "$3" >"$3/ocloc" 2>&1 ||
        ! "$CLATTN_OCLOC" disasm -file "$3"/*.bin -device "$1" -dump "$3/dump" >>"$3/ocloc" 2>&1; then
        cat "$3/ocloc" >&2
        return 1
    fi
    echo 0 "$(intel_private "$3/dump/PTM.txt")"
}

compile_nvidia() { # TARGET SOURCE DIRECTORY
    # clang's own choice of PTX is older than what matrices are stored with from sm_90 on
    clang_to nvptx64-nvidia-nvcl "$1" nvptx64--nvidiacl.bc "$2" "$3/out.ptx" -Xclang -target-feature -Xclang +ptx80 || return 1
    if ! command -v "$CLATTN_PTXAS" >/dev/null; then
        echo 0 0
        return
    fi
    local arch=$1 bound=
    if grep -q '//@' "$3/out.ptx"; then # what the library uncovers (src/device/ptx.h)
        arch=${1}a
        sed -i "s|^\.target $1|&a|; s|//@|   |" "$3/out.ptx"
        bound=$(sed -n '2s|.*maxrregcount=\([0-9]*\).*|-maxrregcount=\1|p' "$2") # which they want to know
    fi
    "$CLATTN_PTXAS" "-arch=$arch" $bound -v "$3/out.ptx" -o "$3/out.cubin" >"$3/ptxas" 2>&1 || { cat "$3/ptxas" >&2; return 1; }
    awk '/bytes stack frame/ { if ($1 > spilled) spilled = $1; if ($5 > spilled) spilled = $5 }
         match($0, /Used [0-9]+ registers/) { used = substr($0, RSTART + 5) + 0; if (used > registers) registers = used }
         END { print registers + 0, spilled + 0 }' "$3/ptxas"
}

maker() { # TARGET
    case $1 in
    gfx*) echo amd ;;
    sm_*) echo nvidia ;;
    *) echo intel ;;
    esac
}

installed() { # TARGET
    case $(maker "$1") in
    amd) command -v "$CLATTN_CLANG" && [ -e "$CLATTN_LIBCLC/amdgcn--amdhsa.bc" ] ;;
    nvidia) command -v "$CLATTN_CLANG" && [ -e "$CLATTN_LIBCLC/nvptx64--nvidiacl.bc" ] ;;
    intel) command -v "$CLATTN_OCLOC" ;;
    esac >/dev/null
}

# One source on one target: a line "TARGET ok|spill|fail REGISTERS SPILLED NAME", and the compiler's complaints.
one() { # TARGET SOURCE WORK
    local target=$1 source=$2 work=$3 directory name numbers state
    directory=$work/$target/$(basename "$source" .cl)
    mkdir -p "$directory"
    name=$(head -n 1 "$source" | sed 's|^/\* *||; s| *\*/.*||; s|^// *||')
    if numbers=$("compile_$(maker "$target")" "$target" "$source" "$directory" 2>"$directory/errors"); then
        state=ok
        [ "${numbers#* }" = 0 ] || state=spill
        [ $state = ok ] || ! grep -qxF "$target $name" "$known" || state=known
    else
        state=fail numbers="0 0"
        { echo "$target: $name"; head -n 12 "$directory/errors"; } >&2
    fi
    echo "$target $state $numbers $name" >"$directory/result"
    # Keep the result only: the outputs of hundreds of compilations are large.
    find "$directory" -mindepth 1 ! -name result -delete
}

if [ "${1-}" = --one ]; then
    one "$2" "$3" "$4"
    exit
fi
while [ $# -gt 0 ]; do
    case $1 in
    --strict) strict=1 ;;
    --once) once=1 ;;
    --skip) skip=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --targets) targets=$2; shift ;;
    '') ;; # CMake's for an option that is off
    -*) echo "offline_compile.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: offline_compile.sh [--strict] [--once] [--skip REGEX] [--jobs N] [--targets LIST] DIRECTORY" >&2
    exit 2
fi

# Kernel, rule, type and size, of the name in the first line
kind() { # SOURCE
    head -n 1 "$1" | awk '{ kind = $2 " " $4; for (i = 5; i <= NF; i++) if ($i ~ /^(b?f[0-9]+|K=.*)$/) kind = kind " " $i; print kind }'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A seen
sources=()
total=0
for source in "$1"/*.cl; do
    [ -e "$source" ] || { echo "offline_compile.sh: no .cl file in $1" >&2; exit 2; }
    total=$((total + 1))
    ! head -n 1 "$source" | grep -qE "$skip" || continue
    if [ $once = 1 ]; then hash=$(kind "$source"); else hash=$(tail -n +2 "$source" | sha1sum); fi
    [ -z "${seen[$hash]-}" ] || continue
    seen[$hash]=1
    sources+=("$source")
done
echo "$total kernel sources, ${#sources[@]} of them compiled"

present=() absent=()
for target in $targets; do
    if installed "$target"; then present+=("$target"); else absent+=("$target"); fi
done
[ ${#absent[@]} -eq 0 ] || echo "no compiler for: ${absent[*]}"
if [ ${#present[@]} -eq 0 ] || { [ "$strict" = 1 ] && [ ${#absent[@]} -gt 0 ]; }; then
    exit $((strict ? 1 : 77))
fi
command -v "$CLATTN_PTXAS" >/dev/null || echo "no ptxas: NVIDIA is compiled to PTX only, spills unseen"

for target in "${present[@]}"; do
    for source in "${sources[@]}"; do
        printf '%s\0%s\0%s\0' "$target" "$source" "$work"
    done
done | xargs -0 -n 3 -P "$jobs" bash "$self" --one

find "$work" -name result -exec cat {} + >"$work/results"
awk -v order="${present[*]}" '
    { count[$1, $2]++; if ($3 > most[$1]) most[$1] = $3 }
    $2 == "spill" && $4 > worst[$1] { worst[$1] = $4; name[$1] = $5; for (i = 6; i <= NF; i++) name[$1] = name[$1] " " $i }
    END {
        printf "%-8s %8s %7s %6s %13s  %s\n", "target", "compiled", "spilled", "failed", "max registers", "most private memory"
        n = split(order, targets, " ")
        for (i = 1; i <= n; i++) {
            t = targets[i]
            printf "%-8s %8d %7d %6d %13s  %s\n", t, count[t, "ok"] + count[t, "spill"], count[t, "spill"],
                count[t, "fail"], most[t] ? most[t] : "-", worst[t] ? worst[t] " in " name[t] : "-"
        }
    }' "$work/results"
expected=$((${#present[@]} * ${#sources[@]}))
[ "$(wc -l <"$work/results")" -eq "$expected" ] || { echo "not every compilation gave a result" >&2; exit 1; }
if grep -qE '^[^ ]+ (spill|fail) ' "$work/results"; then
    echo "kernels that spill or fail:"
    grep -E '^[^ ]+ (spill|fail) ' "$work/results" | sort | awk '{ $3 = ""; print "  " $0 }'
    exit 1
fi
