#!/usr/bin/env bash
# bench_test.sh CLATTN DEVICE: which rows `clattn bench` has, when they come, and what an interrupt leaves.
set -m # jobs in groups of their own, as a terminal's are: they take SIGINT
clattn=$1 device=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkfifo pipe
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

# ---- Passes are rows of their own --------------------------------------------------------------------------------------------

"$clattn" bench gla --pass forward,backward,step "${small[@]}" --csv >out 2>err || fail "passes: $(cat out err)"
[ "$(cut -d, -f2 out | tail -n +2 | paste -sd' ')" = "forward backward step" ] || fail "passes: $(cat out)"
"$clattn" bench softmax_attn --pass forward,backward "${small[@]}" >out 2>err
[ $? -eq 2 ] && [ ! -s out ] && grep -q 'softmax_attn' err || fail "a rule without a backward pass: $(cat out err)"

# ---- What is wrong with a row is said before any is run -------------------------------------------------------------------

"$clattn" bench gla --shape T=20,H=3,K=16,V=16 --shape T=20,H=3,HQ=2,K=16,V=16 --device "$device" >out 2>err
[ $? -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -q HQ err || fail "a bad shape behind a good one: $(cat out err)"
# ---- The reference has no peaks ---------------------------------------------------------------------------------------------

"$clattn" bench gla --shape T=5,H=1,K=4,V=4 --repeat 2 --device reference >out || fail "reference: $(cat out)"
[ "$(head -n 1 out)" = "device: reference" ] || fail "reference: $(cat out)"
awk 'NR == 2 { at = index($0, "mode") } NR == 3 && substr($0, at, 1) == "-" { found = 1 } END { exit !found }' out ||
    fail "the reference has a mode: $(cat out)"
"$clattn" bench gla --shape T=5,H=1,K=4,V=4 --mode chunk --device reference >out 2>err
[ $? -eq 2 ] && grep -q 'the reference has none' err || fail "the reference in mode chunk: $(cat out err)"

# ---- Rows come as they are done, also into a pipe; an interrupt counts those that are missing -----------------------------

six=("$clattn" bench retention gla delta_rule kda rwkv7 mlstm "${small[@]}")

# interrupted LINES OPTIONS…: ended after so many lines; stdout and stderr in out and err
interrupted()
{
    lines=$1
    shift
    POCL_KERNEL_CACHE=0 "${six[@]}" "$@" >pipe 2>err &
    exec 3<pipe
    : >out
    for ((i = 0; i < lines; i++)); do
        IFS= read -r line <&3 && echo "$line" >>out
    done
    kill "-$signal" -- -$!
    cat <&3 >>out
    exec 3<&-
    { wait $!; } 2>/dev/null
    status=$?
}

# counts: rows that are there and rows that the line says are missing are six; 128 + SIGINT
counts()
{
    missing=$(sed -n 's/^clattn: interrupted, \([0-9]*\) of 6 rows are missing$/\1/p' err)
    [ "$status" -eq $((128 + $(kill -l $signal))) ] || fail "$1: exit status $status"
    sed -i '/^[0-9]* warnings* generated\.$/d' err # PoCL's compiler says it where nothing is cached
    [ "$(wc -l <err)" -eq 1 ] || fail "$1: not one line on stderr: $(cat err)"
    [ "$2" -lt 6 ] && [ $(($2 + ${missing:-9})) -eq 6 ] || fail "$1: $2 rows, and: $(cat err)"
}

signal=KILL
interrupted 3
rows=$(grep -c ' ok$' out)
[ "$rows" -ge 1 ] && [ "$rows" -lt 6 ] || fail "killed after the first row, $rows of 6 rows are there: $(cat out)"
for signal in INT TERM; do
    interrupted 3
    counts $signal "$(grep -c ' ok$' out)"
    [ -z "$(tail -c 1 out)" ] || fail "$signal: half a line: $(cat out)"
done
signal=INT
interrupted 2 --csv
counts csv "$(grep -c '^[a-z0-9_]*,forward,.*,ok,' out)"
POCL_KERNEL_CACHE=0 "${six[@]}" --json >out 2>err & # JSON comes whole, whatever is done by then
sleep 1
kill -INT -- -$!
wait $!
status=$?
counts json "$(grep -c '"rule":' out)"
[ "$(head -c 1 out)$(tail -c 2 out)" = '[]' ] || fail "json: not a whole array: $(cat out)"
"${six[@]}" >all 2>err || fail "bench: $(cat err)"
[ -s err ] && fail "something on stderr, which is no terminal: $(cat err)"
[ "$(wc -l <all)" -eq 8 ] || fail "not a device, a head and six rows: $(cat all)"
awk 'NR == 2 { at = index($0, "result") } NR > 2 && substr($0, at) != "ok" { exit 1 }' all || fail "columns move: $(cat all)"
[ "$("${six[@]}" --json | tee json | grep -c '"rule":')" -eq 6 ] || fail "not six rows of JSON"
for key in device driver clattn commit; do
    [ "$(grep -c "\"$key\":" json)" -eq 6 ] || fail "rows of JSON do not name their $key"
done
POCL_KERNEL_CACHE=0 "${six[@]}" 2>err | head -n 3 >out # a reader that goes away
[ "${PIPESTATUS[0]}" -eq 1 ] || fail "a closed pipe: exit status ${PIPESTATUS[0]}"
grep -q '^clattn: ' err && fail "a closed pipe: $(cat err)"

# ---- gemm has its rows as bench has -----------------------------------------------------------------------------------------

six=("$clattn" gemm M={1,2,3,4,5,6}000,N=1000,K=500 --provider plain --device "$device")
for signal in INT TERM; do
    interrupted 3
    counts "gemm, $signal" "$(grep -c ' ok$' out)"
done
signal=INT
"${six[@]}" --json >out 2>err & # whole, whatever is done by then
sleep 1
kill -INT -- -$!
wait $!
status=$?
counts "gemm, json" "$(grep -c '"provider":' out)"
[ "$(head -c 1 out)$(tail -c 2 out)" = '[]' ] || fail "gemm, json: not a whole array: $(cat out)"
"$clattn" gemm M=8,N=8,K=8 M=8,N=8,K=8 --dtype f32,bf16 --provider plain --device "$device" >out 2>err || fail "gemm: $(cat err)"
[ "$(wc -l <out)" -eq 6 ] && [ "$(grep -c ' ok$' out)" -eq 4 ] || fail "gemm: not a device, a head and four rows: $(cat out)"
"$clattn" gemm M=8,N=8,K=8 M=8,N=8,K=8 --transpose xx --device "$device" >out 2>err
[ $? -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] || fail "gemm: what is wrong is said late: $(cat out err)"
[ $failures -eq 0 ]
