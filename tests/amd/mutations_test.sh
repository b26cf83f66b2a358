#!/bin/sh
# mutations_test.sh CLATTN: a mistake in the instructions that a kernel executes is found by `clattn verify`. Each row
# is what the mistake is, the type, and a script for sed that makes it. The kernel that probes the matrix engine is left
# as it is: it would find the mistake, and the plan would do without the engine.
clattn=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

verify() {
    "$clattn" verify gated_delta_rule --shape B=1,T=70,H=2,K=32,V=32 --mode chunk --dtype "$1" --jobs 1 \
        >"$work/out" 2>"$work/err"
}

clean() {
    verify "$1" && return
    echo "$CLATTN_AMD_TARGET $1: wrong without a mistake"
    cat "$work/out" "$work/err"
    exit 1
}

found() {
    if CLATTN_AMD_EDIT="/<probe_matrix>:/,\$!$3" verify "$2"; then
        echo "$CLATTN_AMD_TARGET $2: not found: $1"
        failed=1
    fi
    if ! grep -q "instructions were edited" "$work/err"; then
        echo "$CLATTN_AMD_TARGET $2: no instruction for: $1"
        failed=1
    fi
}

export CLATTN_AMD_TARGET=gfx1100
clean f32
found "a barrier removed" f32 's/s_barrier/s_nop 0/'
found "an offset in LDS" f32 's/(ds_load_b128 .*offset:)128 /\1144 /'
found "an execution mask" f32 's/s_and_saveexec_b/s_or_saveexec_b/'
clean bf16
found "a lane selector" bf16 's/(v_permlanex16_b32 .*)0xfedcba98/\10xfedcba89/'
found "rows of a product for its columns" bf16 's/(v_wmma_[^ ]+ [^,]+), ([^,]+), ([^,]+),/\1, \3, \2,/'
export CLATTN_AMD_TARGET=gfx942
clean bf16
found "rows of a product for its columns" bf16 's/(v_mfma_[^ ]+ [^,]+), ([^,]+), ([^,]+),/\1, \3, \2,/'
exit $failed
