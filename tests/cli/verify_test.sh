#!/usr/bin/env bash
# verify_test.sh CLATTN DEVICE CMAKE: what `clattn verify` prints and when, what an interrupt leaves, what worker processes change.
set -m # jobs in groups of their own, as a terminal's are: they take SIGINT
clattn=$1 device=$2 cmake=$3
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

shape=(--shape B=1,T=40,H=2,K=16,V=16 --mode recurrent --device "$device")
six=("$clattn" verify retention gla delta_rule kda rwkv7 mlstm -j1 --dtype f32 "${shape[@]}") # gla and mlstm in more variants

# children PID
children()
{
    grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | cut -d/ -f3
}

# is_json FILE NAME…: what stands there, in a document that is whole
is_json()
{
    printf 'file(READ "%s" text)\nstring(JSON value ERROR_VARIABLE error GET "${text}" %s)\nif(error)\nmessage(FATAL_ERROR "${error}")
endif()\nmessage("${value}")\n' "$1" "${*:2}" >json.cmake
    "$cmake" -P json.cmake 2>&1
}

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

# ---- Rows come as they are done, also into a pipe, in columns of one width ----------------------------------------------

signal=KILL
for jobs in 1 2; do
    interrupted 3 -j$jobs
    rows=$(grep -c ' ok$' out)
    [ "$rows" -ge 1 ] && [ "$rows" -lt 6 ] || fail "-j$jobs: killed after the first row, $rows of 6 rows are there: $(cat out)"
done
"${six[@]}" >all 2>err || fail "verify: $(cat err)"
[ -s err ] && fail "something on stderr, which is no terminal: $(cat err)"
[ "$(wc -l <all)" -eq 9 ] || fail "not a device, a head, six rows and a line that closes: $(cat all)"
rows=$(tail -n +3 all | head -n 6)
cases=$(awk '{ sum += $3 } END { print sum }' <<<"$rows") # of all rows: rules have variants
awk 'NR == 2 { at = index($0, "result") } NR > 2 && NR < 9 && substr($0, at) != "ok" { exit 1 }' all || fail "columns move: $(cat all)"
grep -qE "^6 rules, $cases cases, 0 failed, worst $(awk '{ print $5 }' <<<"$rows" | sort -g | tail -n 1) of [a-z0-9_]* f32, [0-9.]+ s$" all ||
    fail "the last line: $(tail -n 1 all)"

# same FILE: the table of all, but for the time in its last line
same()
{
    sed 's/, [0-9.]* s$//' all | cmp -s - <(sed 's/, [0-9.]* s$//' "$1")
}

# ---- On a terminal a bar says what is being done, within 80 columns; not where lines cannot be written anew --------------

if command -v script >/dev/null; then
    printf -v words '%q ' "${six[@]}"
    for jobs in 1 2; do
        TERM=xterm script -qec "$words -j$jobs" /dev/null >terminal </dev/null || fail "on a terminal: $(cat terminal)"
        tr '\r' '\n' <terminal | grep '^\[#*\.*\] [0-9]*/'"$cases " >bars
        grep -q '^\[\.*\] 0/'"$cases"' [0-9:]* [a-z_]* f32, B=1,' bars || fail "-j$jobs: the bar does not begin at once: $(cat -v terminal)"
        grep -q '(null' bars && fail "-j$jobs: a case without a mode: $(cat -v bars)"
        sed 's/\x1b.*//' bars | awk 'length > 79 { exit 1 }' || fail "-j$jobs: the bar is wider than a terminal: $(cat bars)"
    done
    # a terminal that is too narrow for all columns has some of them, and only a very narrow one a line for each cell;
    # the bar is no wider than it, either
    TERM=xterm script -qec "stty cols 40; $words" /dev/null >terminal </dev/null || fail "40 columns: $(cat terminal)"
    tr '\r' '\n' <terminal | sed 's/\x1b\[K//g' | grep '^\[' | awk 'length > 39 { exit 1 }' || fail "40 columns: $(cat terminal)"
    tr '\r' '\n' <terminal | sed 's/\x1b\[K//g' | grep -v '^\[\|^$' >lines
    head -n 3 lines | tail -n 2 | paste -sd, | grep -qx 'rule         [a-z0-9_]*,dtype        f32' || fail "40 columns: $(cat lines)"
    [ "$(grep -c '^result       ok$' lines)" -eq 6 ] && [ "$(grep -vc '^[0-9]* rules, \|^  ' lines)" -eq 61 ] || fail "40 columns: $(cat lines)"
    head=$(sed -n 2p all)
    for columns in 66 80 $((${#head} - 1)) ${#head}; do
        script -qec "stty cols $columns; TERM=dumb $words" /dev/null </dev/null | tr -d '\r' >terminal
        [ "$(wc -l <terminal)" -eq 9 ] && awk -v columns=$columns 'length > columns { exit 1 }' terminal &&
            awk 'NR == 2 && !/^rule.*worst error.*result$/ || NR > 2 && NR < 9 && !/^[a-z].* ok$/ { exit 1 }' terminal ||
            fail "$columns columns of ${#head}: $(cat terminal)"
    done
    same terminal || fail "a table as wide as the terminal: $(cat terminal)"
    "$clattn" devices >all_devices
    script -qec "stty cols 80; '$clattn' devices" /dev/null </dev/null | tr -d '\r' >terminal
    [ "$(wc -l <terminal)" -eq "$(wc -l <all_devices)" ] && awk 'length > 80 || NR == 1 && !/^#  device .*usable$/ { exit 1 }' terminal ||
        fail "devices in 80 columns: $(cat terminal)"
    script -qec "stty cols 300; '$clattn' devices" /dev/null </dev/null | tr -d '\r' | cmp -s - all_devices || fail "devices in 300 columns"
    TERM=dumb script -qec "$words" /dev/null >terminal </dev/null
    tr -d '\r' <terminal >dumb
    same dumb || fail "on a dumb terminal: $(cat -v terminal)"
fi

# ---- An interrupt: the rows that are done, a line that counts the others ------------------------------------------------

# counts: rows that are there and rows that the line says are missing are six; 128 + SIGINT
counts()
{
    missing=$(sed -n 's/^clattn: interrupted, \([0-9]*\) of 6 rows are missing$/\1/p' err)
    [ "$status" -eq $((128 + $(kill -l $signal))) ] || fail "$1: exit status $status"
    [ "$(wc -l <err)" -eq 1 ] || fail "$1: not one line on stderr: $(cat err)"
    [ $(($2 + ${missing:-9})) -eq 6 ] || fail "$1: $2 rows, and: $(cat err)"
}

for signal in INT TERM; do
    for jobs in 1 2; do
        interrupted 3 --jobs $jobs
        counts "$signal, --jobs $jobs" "$(grep -c ' ok$' out)"
        [ -z "$(tail -c 1 out)" ] || fail "$signal, --jobs $jobs: half a line: $(cat out)"
    done
done
signal=INT
interrupted 2 --csv
counts csv "$(grep -c ',recurrent,[a-z_]*,ok,' out)"
interrupted 1 --jsonl -j2
[ $status -eq 130 ] && grep -q '^clattn: interrupted, [4-6] of 6 rows are missing$' err || fail "jsonl: exit status $status, $(cat err)"
[ "$(grep -c '^{"rule":.*}$' out)" -eq "$(wc -l <out)" ] || fail "jsonl: not a record a line: $(cat out)"

# JSON comes whole: when some rows must be done
POCL_KERNEL_CACHE=0 "${six[@]}" --json -j2 >out 2>err &
until worker=$(children $! | head -n 1) && [ -n "$worker" ]; do kill -0 $! || break; done
while kill -0 "$worker" 2>/dev/null; do sleep 0.02; done
kill -INT -- -$!
wait $!
status=$?
counts json "$(grep -c '"worst_case"' out)"
[ "$(is_json out missing)" = "$missing" ] || fail "json: missing is $(is_json out missing), not $missing"
awk -v group=$! '$5 == group' /proc/[0-9]*/stat 2>/dev/null | grep clattn && fail "workers are left"

# what is ignored stays ignored
: >out
(trap '' INT && POCL_KERNEL_CACHE=0 exec "${six[@]}") >out 2>err &
until [ "$(wc -l <out)" -ge 3 ]; do kill -0 $! || break; done
kill -INT -- -$!
wait $! || fail "SIGINT was to be ignored, exit status $?: $(cat err)"
same out || fail "SIGINT was to be ignored: $(cat out)"

# a reader that goes away
POCL_KERNEL_CACHE=0 "${six[@]}" 2>err | head -n 3 >out
[ "${PIPESTATUS[0]}" -eq 1 ] || fail "a closed pipe: exit status ${PIPESTATUS[0]}"
grep -q '^clattn: ' err && fail "a closed pipe: $(cat err)"

# ---- Workers give the rows of one process -------------------------------------------------------------------------------

for format in --csv --json --jsonl --markdown; do
    "${six[@]}" $format >one || fail "$format"
    "${six[@]}" $format -j3 >three || fail "$format -j3"
    [ $format = --json ] || { sort one >sorted && mv sorted one && sort three >sorted && mv sorted three; }
    cmp -s one three || fail "$format: workers give other rows: $(diff one three)"
done
"${six[@]}" --json -j3 >three
[ "$(is_json three ok)" = ON ] || fail "json of workers is not ok: $(is_json three ok)"
"${six[@]}" --verbose -j2 >out
[ "$(grep -c ' recurrent .* ok$' out)" -eq $((cases + 6)) ] || fail "--verbose: not $cases cases and six rows: $(cat out)"

# what runs nowhere has an infinite error, which JSON has no number for
for jobs in 1 3; do
    POCL_EXTRA_BUILD_FLAGS=--none-such "${six[@]}" -j$jobs 2>err | sed 's/, [0-9.]* s$//' | sort >jobs$jobs
    [ "${PIPESTATUS[0]}" -eq 1 ] || fail "no kernel builds, and the exit status is ${PIPESTATUS[0]}"
    [ "$(grep -c ' inf .*FAIL$' jobs$jobs)" -eq 6 ] || fail "no kernel builds: $(cat jobs$jobs)"
done
cmp -s jobs1 jobs3 || fail "no kernel builds: $(diff jobs1 jobs3)"

# options are theirs too
"$clattn" verify retention gla --dtype=f32 -sT=20,H=1,K=16,V=16 -m recurrent --chunk 16 -d "$device" --seed 5 --csv -j 2 >two &&
    "$clattn" verify retention gla -t f32 -s T=20,H=1,K=16,V=16 -mrecurrent --chunk=16 -d="$device" --seed=5 --csv >one
sort one >sorted && sort two | cmp -s - sorted || fail "options: $(diff one two)"
"${six[@]}" --csv | sort | cmp -s - sorted && fail "options are not seen"

# ---- A worker leaves SIGINT and its like to who started it; one that dies is a row -------------------------------------

# state PID: a letter; none where there is no such process
state()
{
    sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null
}

# stopped PID: it is, and does not end before it is killed
stopped()
{
    kill -STOP "$1" 2>/dev/null
    until [[ $(state "$1") != [RSD] ]]; do :; done
    [ "$(state "$1")" = T ]
}

POCL_KERNEL_CACHE=0 "${six[@]}" -j2 >out 2>err &
until workers=$(children $!) && [ "$(echo "$workers" | wc -w)" -eq 2 ] && stopped ${workers##*[!0-9]}; do kill -0 $! || break; done
for signal in INT TERM HUP; do
    kill -$signal ${workers%%[!0-9]*} 2>/dev/null
done
kill -SEGV ${workers##*[!0-9]}
kill -CONT ${workers##*[!0-9]}
wait $! && fail "a worker died and all is well"
[ "$(grep -c ' ok$' out)" -eq 5 ] && [ "$(grep -c ' FAIL$' out)" -eq 1 ] || fail "a worker died: not five rows and one: $(cat out)"
line=$(sed -n 's/.*its process ended with signal 11 (Segmentation fault.*); again with: \(clattn .*\), error inf, bound .*/\1/p' err)
[ -n "$line" ] || fail "a worker died: $(cat err)"
eval "${line/clattn/'"$clattn"'}" >again || fail "'$line' does not run"
[ "$(awk 'NR == 3 { print $1 }' again)" = "$(awk '/FAIL$/ { print $1 }' out)" ] || fail "'$line' runs another row"

# one that cannot be what it should
"${six[@]}" --device nowhere -j2 >out 2>err && fail "a device that is not there"

# ---- A mode that a rule has no solver of is left out, with a line; it is an error where nothing is left of a rule that was named ----

left='clattn: softmax_attn has no solver of mode recurrent: not run'
two=("$clattn" verify gla softmax_attn --dtype f32,bf16 --shape B=1,T=20,H=2,K=16,V=16 --device "$device")
for jobs in 1 2; do
    "${two[@]}" --mode auto,recurrent,chunk -j$jobs --csv >out 2>err || fail "modes, -j$jobs: $(cat out err)"
    [ "$(cat err)" = "$left" ] || fail "modes, -j$jobs: not the one line: $(cat err)"
    [ "$(cut -d, -f1-4 out | tail -n +2 | sort | paste -sd' ')" = \
        "gla,bf16,12,0 gla,f32,12,0 softmax_attn,bf16,12,0 softmax_attn,f32,12,0" ] || fail "modes, -j$jobs: $(cat out)"
    "$clattn" verify --mode recurrent --dtype f32 --shape T=3,H=1,K=4,V=4 --device "$device" --csv -j$jobs >out 2>err ||
        fail "recurrent alone, -j$jobs: $(cat out err)"
    [ "$(sort err | cut -d' ' -f2- | paste -sd,)" = "$(printf '%s has no solver of mode recurrent: not run\n' \
        alibi_attn deltaformer forgetting_attn lact path_attn softmax_attn titans titans_mlp ttt_linear ttt_mlp | sort | paste -sd,)" ] || fail "recurrent alone, -j$jobs: $(cat err)"
    grep -q '^gla,f32,4,0,' out && ! grep -q '^softmax_attn' out || fail "recurrent alone, -j$jobs: $(cat out)"
    "${two[@]}" --mode recurrent -j$jobs >out 2>err
    [ $? -eq 2 ] && [ "$(cat err)" = "clattn: softmax_attn has no solver of mode recurrent" ] ||
        fail "nothing left of a rule, -j$jobs: $(cat out err)"
done

"$clattn" verify gla --mode recurrent,chunk --option state_window=2 --dtype f32 --shape T=3,H=1,K=4,V=4 --device reference --csv >out 2>err &&
    grep -q '^gla,f32,4,0,' out && [ "$(cat err)" = "clattn: gla has no solver of mode chunk with these states: not run" ] ||
    fail "a window in chunks: $(cat out err)"
"$clattn" verify mesa_net --mode chunk --option state_every=8 --dtype f32 --shape T=3,H=1,K=4,V=4 --device reference >out 2>err
[ $? -eq 2 ] && [ "$(cat err)" = "clattn: mesa_net has no solver of mode chunk with these states" ] || fail "mesa_net: $(cat out err)"

# ---- --quick ---------------------------------------------------------------------------------------------------------------

"$clattn" verify gla --quick --mode recurrent --device "$device" --csv >out || fail "--quick: $(cat out)"
[ "$(cut -d, -f1-3 out | tail -n +2 | sort | paste -sd' ')" = "gla,bf16,1 gla,f16,1 gla,f32,1" ] || fail "--quick: $(cat out)" # rows come as they are done
[ $failures -eq 0 ]
