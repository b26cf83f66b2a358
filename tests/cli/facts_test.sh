#!/bin/sh
# facts_test.sh CLATTN DEVICE FACTS: plans as they are on devices whose limits the files of the folder FACTS have: within those limits,
# other than on this one, and right.
set -eu
clattn=$1 device=$2 facts=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$*" >&2; exit 1; }

"$clattn" make-input gated_delta_rule -s B=1,T=100,H=2,K=128,V=128 -o "$folder/in"
"$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/own" -d "$device" -v 2>"$folder/own.plan" >&2
"$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/expected" -d reference
for file in "$facts"/*.json; do
    local_memory=$(sed -n 's/.*"local_memory": \([0-9]*\).*/\1/p' "$file")
    group=$(sed -n 's/.*"max_work_group": \([0-9]*\).*/\1/p' "$file")
    CLATTN_DEVICE_FACTS=$file "$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/out" -d "$device" -v 2>"$folder/plan" >&2
    sed -n 's/.* group \([0-9]*\),.* local \([0-9]*\) bytes.*/\1 \2/p' "$folder/plan" >"$folder/sizes"
    [ -s "$folder/sizes" ] || fail "$file: $(cat "$folder/plan")"
    awk -v g="$group" -v l="$local_memory" '$1 > g || $2 > l || $1 < 2 {bad = 1} END {exit bad}' "$folder/sizes" ||
        fail "$file: work-groups of 2 to $group and $local_memory bytes expected: $(cat "$folder/plan")"
    [ "${file##*/}" != gen9.json ] || grep -q "solver chunk_scan" "$folder/plan" || fail "Intel gets register blocks"
    ! cmp -s "$folder/plan" "$folder/own.plan" || fail "$file changes nothing"
    "$clattn" diff "$folder/out" "$folder/expected" || fail "$file: wrong"
done
# The recurrence in wide groups, however few; of a few tokens in narrow ones
for tokens in 8 9; do
    "$clattn" make-input simple_gla -s "B=1,T=$tokens,H=2,K=128,V=128" -o "$folder/few"
    CLATTN_DEVICE_FACTS=$facts/rdna2.json "$clattn" run simple_gla -m recurrent -i "$folder/few" -o "$folder/out" -d "$device" -v 2>"$folder/plan.$tokens" >&2
done
grep -q "value tile 8," "$folder/plan.8" && grep -q "value tile 32," "$folder/plan.9" || fail "$(cat "$folder/plan.8" "$folder/plan.9")"

# and of many, where nothing is erased, in parts of a sequence, for as long as that is ahead of chunks
for row in "gla 256 recurrent" "gla 257 chunk_blocks" "gated_delta_rule 64 recurrent" "gated_delta_rule 65 chunk_blocks"; do
    set -- $row
    "$clattn" make-input "$1" -s "B=1,T=$2,H=2,K=64,V=64" -o "$folder/some"
    CLATTN_DEVICE_FACTS=$facts/rdna2.json "$clattn" run "$1" -i "$folder/some" -o "$folder/out" -d "$device" -v 2>"$folder/plan" >&2
    grep -q "solver $3" "$folder/plan" || fail "$row: $(cat "$folder/plan")"
    [ "$row" != "gla 256 recurrent" ] || grep -q "16 segments gathered" "$folder/plan" || fail "in no parts: $(cat "$folder/plan")"
    "$clattn" run "$1" -i "$folder/some" -o "$folder/expected" -d reference >&2
    "$clattn" diff "$folder/out" "$folder/expected" || fail "$row: wrong"
done

# Mamba's scan: longer tiles where no compute unit has two groups
for heads in 9 10; do
    "$clattn" make-input mamba -s "B=1,T=99,H=$heads,HQ=1,K=16,V=128" -o "$folder/few"
    CLATTN_DEVICE_FACTS=$facts/rdna2.json "$clattn" run mamba -i "$folder/few" -o "$folder/out" -d "$device" -v 2>"$folder/plan.$heads" >&2
done
grep -q "spans of 3 tokens, value tile 32," "$folder/plan.9" && grep -q "spans of 2 tokens, value tile 32," "$folder/plan.10" ||
    fail "$(cat "$folder/plan.9" "$folder/plan.10")"

# The self-test's plan has the tiles of the plan that it is for: keys that are carried, in a recipe of kernels of three kinds
"$clattn" make-input path_attn -s B=1,T=3,TK=100,H=2,K=64,V=64 --option tail=13 --option carry=on -o "$folder/carried"
CLATTN_SELF_TEST=1 CLATTN_DEVICE_FACTS=$facts/rdna2.json "$clattn" run path_attn --option carry=on -i "$folder/carried" -o "$folder/out" -d "$device" -v 2>"$folder/plan" >&2
grep -q "^solver path_decode" "$folder/plan" || fail "$(cat "$folder/plan")"

# The self-test has more than a few tokens of mesa_net, of which a single one's output may be mostly the rounding of its solved query:
# here five were above the bound, and the only solver of mode recurrent was refused
set -- --option qk_l2norm=on --option reversed=on --option gate_map=softplus --option beta_map=sigmoid
"$clattn" make-input mesa_net -t bf16 --gate-dtype bf16 -s B=1,T=9,H=1,K=32,V=64 "$@" -o "$folder/solved"
CLATTN_CACHE_DIR="" CLATTN_SELF_TEST=1 "$clattn" run mesa_net -m recurrent "$@" -i "$folder/solved" -o "$folder/out" -d "$device" >&2 ||
    fail "mesa_net in bf16: the self-test refuses mesa_tokens"

# A device that leaves a kernel's loops after some turns (llvmpipe): a sequence goes through in several launches, to the bit what one
# launch computes; and where a launch could not finish a token, the line that refuses has the number
few_turns() { echo "{\"type\":\"cpu\",\"local_memory\":1048576,\"loop_turns\":$1}" >"$folder/turns.json"; }
"$clattn" make-input mesa_net -s B=2,T=21,H=1,K=8,V=8 -o "$folder/walked"
"$clattn" run mesa_net -m recurrent -i "$folder/walked" -o "$folder/expected" -d "$device"
few_turns 5000
CLATTN_DEVICE_FACTS=$folder/turns.json "$clattn" run mesa_net -m recurrent -i "$folder/walked" -o "$folder/out" -d "$device" -v 2>"$folder/plan" >&2
grep -q " [2-9] tokens a launch" "$folder/plan" || fail "in one launch: $(cat "$folder/plan")"
cmp "$folder/out" "$folder/expected" || fail "mesa_net in several launches: other bits"
few_turns 200
if CLATTN_DEVICE_FACTS=$folder/turns.json "$clattn" run mesa_net -i "$folder/walked" -o "$folder/out" -d "$device" 2>"$folder/err"; then
    fail "200 turns are enough"
fi
grep -q "no solver fits .*, 200 turns of loops" "$folder/err" || fail "$(cat "$folder/err")"

# PaTH with keys of 576 numbers in 32 KiB of local memory, where every rule is run
if [ -z "${CLATTN_FACTS_RULES-}" ]; then
    "$clattn" make-input path_attn -s B=1,T=5,TK=9,H=1,K=576,V=4 -o "$folder/wide"
    CLATTN_DEVICE_FACTS=$facts/mali.json "$clattn" run path_attn -m chunk -i "$folder/wide" -o "$folder/out" -d "$device" -v 2>"$folder/plan" >&2
    "$clattn" run path_attn -i "$folder/wide" -o "$folder/expected" -d reference >&2
    "$clattn" diff "$folder/out" "$folder/expected" || fail "path_attn, K=576: wrong"
fi

# As users have it, optimising and tested before use: every rule, or those of CLATTN_FACTS_RULES
(
    unset POCL_EXTRA_BUILD_FLAGS CLATTN_SELF_TEST
    export CLATTN_DEVICE_FACTS="$facts/small.json"
    # shellcheck disable=SC2086 # words
    "$clattn" verify --quick --dtype f32 --jobs 2 ${CLATTN_FACTS_RULES-} -d "$device" 2>"$folder/err" || fail "small.json: $(cat "$folder/err")"
)
[ ! -s "$folder/err" ] || fail "small.json: $(cat "$folder/err")"

# What the device has no memory for is said before anything is drawn, or the first row is run
echo '{"name":"x","type":"cpu","global_memory":4194304,"max_allocation":2097152,"local_memory":49152,"max_work_group":4096}' >"$folder/few.json"
"$clattn" make-input gla -s B=1,T=7000,H=1,K=64,V=64 -o "$folder/large"
# short WHAT WORDS COMMAND…: ends with 1, that line, and no row
short() {
    what=$1 words=$2
    shift 2
    status=0
    CLATTN_DEVICE_FACTS=$folder/few.json "$clattn" "$@" -d "$device" >"$folder/stdout" 2>"$folder/err" || status=$?
    [ $status = 1 ] && grep -q "$words" "$folder/err" && ! grep -q ' ok$' "$folder/stdout" ||
        fail "$what: status $status, $(cat "$folder/stdout" "$folder/err")"
}
at_once='gla: q takes 0.00238 GiB, the device allocates at most 0.00195 GiB at once'
short bench "$at_once" bench gla -s B=1,T=1000,H=1,K=16,V=16 -s B=10,T=1000,H=1,K=64,V=64
short verify 'gla: operands take 0.00838 GiB, the device has 0.00391 GiB' verify gla --dtype f32 -s B=1,T=7000,H=1,K=64,V=64
short run 'operands and workspace take 0.00[0-9]* GiB, the device has 0.00391 GiB' run gla -i "$folder/large" -o "$folder/out"
short tune 'not tuned: q takes 0.00763 GiB, the device' tune gla -s B=100,H=10,K=64,V=64 -b 1s --dry-run

# A report is such a file, too; what is none says so
"$clattn" devices --json >"$folder/devices.json"
CLATTN_DEVICE_FACTS=$folder/devices.json "$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/out" -d "$device"
for file in "$folder/in" "$folder/missing"; do
    said=$([ -e "$file" ] && echo 'it is not JSON' || echo 'it cannot be read')
    if CLATTN_DEVICE_FACTS=$file "$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/out" -d "$device" 2>"$folder/err"; then
        fail "$file is no report"
    fi
    grep -q "CLATTN_DEVICE_FACTS=$file: $said" "$folder/err" || fail "$(cat "$folder/err")"
done

# Variables: empty is off, nonsense is refused
CLATTN_ENGINE='' CLATTN_SELF_TEST='' "$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/out" -d "$device"
if CLATTN_SELF_TEST=garbage "$clattn" run gated_delta_rule -i "$folder/in" -o "$folder/out" -d "$device" 2>"$folder/err"; then
    fail "CLATTN_SELF_TEST=garbage"
fi
grep -q "CLATTN_SELF_TEST is 'garbage', expected 0 or 1" "$folder/err" || fail "$(cat "$folder/err")"
