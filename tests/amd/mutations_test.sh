#!/bin/sh
# mutations_test.sh CLATTN TARGET: a mistake in the instructions that a kernel executes is found by `clattn verify`. Each
# row is what the mistake is, the type, and a script for sed that makes it.
clattn=$1
export CLATTN_AMD_TARGET="$2"
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
    if CLATTN_AMD_EDIT=$3 verify "$2"; then
        echo "$CLATTN_AMD_TARGET $2: not found: $1"
        failed=1
    fi
    if ! grep -q "instructions were edited" "$work/err"; then
        echo "$CLATTN_AMD_TARGET $2: no instruction for: $1"
        failed=1
    fi
}

clean f32
found "a barrier removed" f32 's/s_barrier/s_nop 0/'
found "an offset in LDS" f32 's/(ds_load_b128 .*offset:)128 /\1144 /'
found "an execution mask" f32 's/s_and_saveexec_b/s_or_saveexec_b/'
exit $failed
