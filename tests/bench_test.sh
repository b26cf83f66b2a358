#!/usr/bin/env bash
# bench_test.sh CLATTN DEVICE: which rows `clattn bench` has.
clattn=$1 device=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail()
{
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}
small=(--shape B=1,T=20,H=2,K=16,V=16 --repeat 2 --device "$device")

# rows: rules and modes of a table of comma-separated values
rows()
{
    cut -d, -f1,3 "$1" | tail -n +2 | paste -sd' '
}

# ---- A mode that a rule has no solver of is left out, with a line; it is an error where nothing is left of a rule that was named ----

"$clattn" bench gla softmax_attn --mode auto,recurrent "${small[@]}" --csv >out 2>err || fail "modes: $(cat out err)"
[ "$(rows out)" = "gla,auto gla,recurrent softmax_attn,auto" ] || fail "modes: $(cat out)"
[ "$(cat err)" = "clattn: softmax_attn has no solver of mode recurrent: not run" ] || fail "modes: not the one line: $(cat err)"
"$clattn" bench gla softmax_attn --mode recurrent "${small[@]}" >out 2>err
[ $? -eq 2 ] && [ ! -s out ] && [ "$(cat err)" = "clattn: softmax_attn has no solver of mode recurrent" ] ||
    fail "nothing left of a rule: $(cat out err)"

# ---- What is wrong with a row is said before any is run -------------------------------------------------------------------

"$clattn" bench gla --shape T=20,H=3,K=16,V=16 --shape T=20,H=3,HQ=2,K=16,V=16 --device "$device" >out 2>err
[ $? -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -q HQ err || fail "a bad shape behind a good one: $(cat out err)"
[ $failures -eq 0 ]
