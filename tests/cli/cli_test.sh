#!/bin/sh
# cli_test.sh CLATTN DEVICE run RULE: make-input and run, the device's file against the reference's, in every dtype.
# cli_test.sh CLATTN DEVICE metadata: what a file says of itself is followed, or refused where the command line says another.
# cli_test.sh CLATTN DEVICE diff: one file's tensors against another's.
# cli_test.sh CLATTN DEVICE attn: the attention matrix, its table and its picture.
# cli_test.sh CLATTN DEVICE heads: a gate of one head for all.
# cli_test.sh CLATTN DEVICE layer NAME FOLDER: a layer's file of weights and one of a prompt, against another module's outputs.
# cli_test.sh CLATTN DEVICE formats: tables as CSV, Markdown and JSON, and what -v says.
# cli_test.sh CLATTN DEVICE bad:      bad files and bad usage: exit 2, one line that says what, no output left behind.
clattn=$1
device=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# ---- safetensors, read with od and awk ----------------------------------------------------------------------------

# header FILE: the JSON text
header()
{
    tail -c +9 "$1" | head -c "$(od -An -t u8 -N 8 "$1" | tr -d ' ')"
}

# tensors FILE: the names of its tensors
tensors()
{
    header "$1" | sed 's/"__metadata__":{[^}]*},\{0,1\}//' | grep -o '"[a-z0-9_]*":{' | tr -d '":{'
}

# field FILE TENSOR NAME: what stands after NAME of a tensor, without quotes and brackets
field()
{
    header "$1" | grep -o "\"$2\":{[^}]*}" | grep -o "\"$3\":\(\"[^\"]*\"\|\[[^]]*\]\)" | cut -d: -f2 | tr -d '"[]'
}

# numbers FILE TENSOR: its elements, one a line
numbers()
{
    offsets=$(field "$1" "$2" data_offsets)
    base=$(($(od -An -t u8 -N 8 "$1" | tr -d ' ') + 9 + ${offsets%,*}))
    count=$((${offsets#*,} - ${offsets%,*}))
    dtype=$(field "$1" "$2" dtype)
    format=u2
    [ "$dtype" = F32 ] && format=f4
    tail -c +$base "$1" | head -c $count | od -An -v -t $format -w4 | tr -s ' ' '\n' | grep . | awk -v dtype="$dtype" '
        function decode(x, bits, bias, high, one, e, m) {
            one = 2 ^ bits; high = int(x / 32768); e = int(x % 32768 / one); m = x % one
            if (e == 2 * bias + 1) return "nan"
            m = e == 0 ? m / one * 2 ^ (1 - bias) : (1 + m / one) * 2 ^ (e - bias)
            return high ? -m : m
        }
        { print dtype == "F32" ? $1 : decode($1, dtype == "F16" ? 10 : 7, dtype == "F16" ? 15 : 127) }'
}

# compare ACTUAL EXPECTED TENSOR BOUND: relative error within the bound, no nan
compare()
{
    for name in dtype shape; do
        [ "$(field "$1" "$3" $name)" = "$(field "$2" "$3" $name)" ] || fail "$1: $name of $3"
    done
    numbers "$1" "$3" >"$work/actual"
    numbers "$2" "$3" >"$work/expected"
    [ -s "$work/expected" ] || fail "$2: $3 is empty"
    paste "$work/actual" "$work/expected" | awk -v bound="$4" '
        $1 ~ /nan|inf/ || $2 ~ /nan|inf/ { if ($1 != $2 || $1 ~ /nan/) bad++; next }
        { d += ($1 - $2) ^ 2; s += $2 ^ 2; n++ }
        END { rel = n ? sqrt(d / n) / (sqrt(s / n) + 1e-8) : 1; print rel; exit bad || !(rel <= bound) || s == 0 }' >"$work/rel" ||
        fail "$1 against $2: relative error of $3 is $(cat "$work/rel"), bound $4"
}

# ended FILE TOKENS: a pattern for the line that run ends with
ended()
{
    echo "^clattn: $1: $2 tokens in [0-9.e+-]+ m?s \([0-9]+ tokens/s\), (reference|[a-z_]+ on .*; the plan in [0-9.e+-]+ m?s)$"
}

# but_its_end FILE: what run says beside that
but_its_end()
{
    grep -vE "$(ended '.*' '[0-9]+')" "$1"
}

# ---- run ----------------------------------------------------------------------------------------------------------

# run_case RULE DTYPE BOUND SHAPE [make-input options]
run_case()
{
    rule=$1 dtype=$2 bound=$3 shape=$4
    shift 4
    cd "$work" || exit 1
    rm -f ./*.safetensors
    "$clattn" make-input "$rule" --shape "$shape" --dtype "$dtype" --seed 3 "$@" -o in.safetensors ||
        fail "make-input $rule $shape $dtype $*"
    "$clattn" run "$rule" -i in.safetensors -o expected.safetensors --device reference || fail "run $rule $shape $dtype on the reference"
    "$clattn" run "$rule" -i in.safetensors -o actual.safetensors --device "$device" >/dev/null || fail "run $rule $shape $dtype"
    [ "$(tensors actual.safetensors)" = "$(tensors expected.safetensors)" ] || fail "$rule $shape $dtype: other tensors"
    tensors expected.safetensors | grep -qx o || fail "$rule $shape $dtype: no o"
    for tensor in $(tensors expected.safetensors); do
        compare actual.safetensors expected.safetensors "$tensor" "$bound"
    done
}

# A rule whose weights are trained.
run_learner()
{
    for dtype in f32:1e-5 f16:5e-3 bf16:5e-3; do
        run_case "$1" ${dtype%:*} ${dtype#*:} B=2,T=50,H=2,K=20,V=12 --option mini_batch=16 --option hidden_dim=24 \
            --option with_momentum=on
    done
    refused "$1 packed" 'not cut by cu_seqlens' make-input "$1" --shape B=1,T=3,H=1,K=2,V=2 --varlen 0,1,3 -o out
}

# One whose weights a few tokens train, each at its time.
run_trained()
{
    for dtype in f32:1e-5 f16:5e-3 bf16:5e-3; do
        run_case "$1" ${dtype%:*} ${dtype#*:} B=2,T=50,H=2,K=20,V=20 --option mini_batch=12
    done
    refused "$1 packed" 'not cut by cu_seqlens' make-input "$1" --shape B=1,T=3,H=1,K=2,V=2 --varlen 0,1,3 -o out
}

run_rule()
{
    if "$clattn" rules "$1" | grep -q readout; then
        run_trained "$1"
        return
    fi
    if "$clattn" rules "$1" | grep -q '^  *inputs\( .*\)* w0 \|^ *w0 '; then
        run_learner "$1"
        return
    fi
    if "$clattn" rules "$1" | grep -q initial_state; then
        shared=HQ state=--initial-state
    elif ! "$clattn" rules "$1" | grep -q '^  inputs *q'; then
        shared=HQ state=
    else
        shared=HK state='--option sink=on'
    fi
    sizes=$shared=2,K=20
    "$clattn" rules "$1" | grep -q '^  inputs *q' || sizes=K=1
    for dtype in f32:1e-5 f16:5e-3 bf16:5e-3; do
        run_case "$1" ${dtype%:*} ${dtype#*:} B=1,T=131,H=4,$sizes,V=12 --varlen 0,0,1,130,131 $state
    done
    sizes=${sizes#*2,}
    if [ $shared = HQ ] && ! "$clattn" make-input "$1" --shape B=1,T=1,H=4,HK=2,$sizes,V=12 -o "$work/shared" 2>&1 |
        grep -q 'states are not shared'; then
        run_case "$1" f32 1e-5 B=2,T=9,H=4,HK=2,$sizes,V=12 $state
    fi
    [ $shared = HQ ] || run_case "$1" f32 1e-5 B=2,T=3,TK=75,H=6,HK=2,K=20,V=12
}

# The attention matrix on the device against the reference's, as values and as a picture.
attn()
{
    cd "$work" || exit 1
    for rule in gated_delta_rule softmax_attn; do
        "$clattn" make-input $rule --shape B=2,T=19,H=3,K=8,V=8 -o in.safetensors || fail "make-input $rule"
        "$clattn" run $rule -i in.safetensors -o expected.safetensors --attn -d reference || fail "run $rule --attn -d reference"
        "$clattn" run $rule -i in.safetensors -o actual.safetensors --attn -d "$device" || fail "run $rule --attn"
        compare actual.safetensors expected.safetensors attn 1e-5
        "$clattn" plot actual.safetensors -o plot.svg || fail "plot $rule"
        [ "$(grep -c '<svg x=' plot.svg)" = 6 ] || fail "$rule: $(grep -c '<svg x=' plot.svg) matrices, expected 6"
        grep -q '#227de8.* d="M' plot.svg || fail "$rule: nothing is drawn"
        [ "$(tail -n 1 plot.svg)" = '</svg>' ] || fail "$rule: the picture does not end"
    done
    grep -q '#e06c00.* d="M' plot.svg && fail "softmax_attn: a negative element"
    "$clattn" plot actual.safetensors -o plot.csv || fail "plot to a table"
    "$clattn" plot actual.safetensors | cmp -s - plot.csv || fail "plot to standard output"
    awk -F, 'NR > 1 { sum[$1, $2, $3] += $5; wrong += $4 > $3 && $5 != 0 }
             END { for (row in sum) wrong += sum[row] < 0.9999 || sum[row] > 1.0001; exit !(NR == 2167 && !wrong) }' plot.csv ||
        fail "softmax_attn: the rows of the table do not sum to 1"
    refused 'plot without a matrix' "in.safetensors: has no tensor 'attn'" plot in.safetensors -o out.svg
    refused 'attn of hgrn' "hgrn: each value column has an attention matrix" make-input hgrn --shape B=1,T=3,H=1,K=1,V=2 --option attn=on -o out
}

# A beta of one head is that of every head.
one_head()
{
    ones='\0\0\200\77\0\0\200\77' half='\0\0\0\77' quarter='\0\0\200\76'
    for beta in "1 $half$quarter" "2 $half$half$quarter$quarter"; do
        heads=${beta%% *} numbers=${beta#* }
        bytes=$((heads * 8))
        forge "$work/in.$heads" "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,2,2,1],\"data_offsets\":[0,16]},\"k\":{\"dtype\":\"F32\",\"shape\":[1,2,2,1],\"data_offsets\":[16,32]},\"v\":{\"dtype\":\"F32\",\"shape\":[1,2,2,1],\"data_offsets\":[32,48]},\"beta\":{\"dtype\":\"F32\",\"shape\":[1,2,$heads],\"data_offsets\":[48,$((48 + bytes))]}}" 0
        # shellcheck disable=SC2059
        printf "$ones$ones$ones$ones$ones$ones$numbers" >>"$work/in.$heads"
        "$clattn" run delta_rule -i "$work/in.$heads" -o "$work/o.$heads" --device "$device" >"$work/stdout" || fail "beta of $heads heads"
    done
    compare "$work/o.1" "$work/o.2" o 0
    "$clattn" diff "$work/o.1" "$work/o.2" --bound 1e-30 >"$work/stdout" || fail "one head's beta: $(cat "$work/stdout")"
    [ "$(tail -c 16 "$work/o.1" | od -An -t f4 | tr -s ' ')" != " 0 0 0 0" ] || fail "nothing was computed"
}

# Every command with a table has it as CSV, Markdown and JSON; -v says time and rate.
formats()
{
    for table in devices rules cache layer "layer kda" "tune --show --device $(echo "$device" | tr -d ' ' | cut -c1-8)"; do
        # shellcheck disable=SC2086
        set -- $table
        "$clattn" "$@" --csv >"$work/csv" 2>"$work/stderr" || fail "$table --csv: $(cat "$work/stderr")"
        head -1 "$work/csv" | grep -qE '^[a-z_]+(,[a-z_]+){2,}$' || fail "$table --csv: $(head -1 "$work/csv")"
        head -1 "$work/csv" | grep -q ',clattn,commit$' || fail "$table --csv does not name clattn: $(head -1 "$work/csv")"
        "$clattn" "$@" --markdown >"$work/md" || fail "$table --markdown"
        sed -n 2p "$work/md" | grep -qE '^[|:-]+$' || fail "$table --markdown: $(sed -n 2p "$work/md")"
        awk -F'|' 'NR == 1 { n = NF } NF < n { bad = 1 } END { exit bad }' "$work/md" || fail "$table: rows of other lengths"
        "$clattn" "$@" --json >"$work/json" || fail "$table --json"
        [ "$table" = rules ] && first='{' || first='['
        [ "$(head -c 1 "$work/json")" = "$first" ] || fail "$table --json"
        "$clattn" "$@" --json --csv >"$work/both" 2>&1 && fail "$table in two formats"
    done
    "$clattn" devices --csv | grep -E '[0-9]e\+[0-9]' && fail "devices --csv rounds whole numbers"
    name=$(printf '%0200d' 0)
    forge "$work/in" "{\"$name\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" 1
    "$clattn" diff "$work/in" "$work/in" --csv | grep -q "^$name,U8," || fail "a cell of 200 characters is cut"
    [ "$(sed 1q "$work/csv" | tr ',' '\n' | grep -c '^device$\|^driver$')" -eq 2 ] || fail "tune --csv does not name the device"
    "$clattn" verify gla --quick --dtype f32 --device "$device" --csv | sed 1q | grep -q ',ok,device,driver,clattn,commit$' ||
        fail "verify --csv does not name the device"
    "$clattn" --version | grep -qE "^clattn [0-9.]+ \(([0-9a-f]+(-dirty)?, )?[a-z]+ [0-9][^,]*, [a-z]+, (32|64) bits\)$" ||
        fail "--version: $("$clattn" --version)"
    "$clattn" devices --json | sed -n 's/.*"version":\t"\(.*\)",*$/\1/p' | awk 'length($0) == 63 { exit 1 }' ||
        fail "a device's version is cut: $("$clattn" devices --json | grep '"version"')"
    [ "$("$clattn" rules --csv | wc -l)" -eq "$("$clattn" rules --json | grep -c '"paper":' | awk '{ print $1 + 1 }')" ] ||
        fail "not a line a rule"
    if command -v script >/dev/null; then
        script -qec "POCL_KERNEL_CACHE=0 CLATTN_CACHE_DIR= '$clattn' verify gla kda --dtype f32 --mode recurrent --device '$device'" /dev/null >"$work/bar" </dev/null
        grep -qE '\] [0-9]+/[0-9]+ [0-9]+:[0-9][0-9] of about [0-9]+:[0-9][0-9] (gla|kda) f32' "$work/bar" ||
            fail "the bar has no time: $(tr '\r' '\n' <"$work/bar" | tail -n 4)"
    fi
    "$clattn" rules gdn | grep -q '^  tuned as    scalar+key$' || fail "rules gdn does not name its group"
    [ "$("$clattn" rules --json | grep -c '"group":')" -eq "$("$clattn" rules --json | grep -c '"paper":')" ] || fail "rules without a group"
    "$clattn" rules gdn --csv | grep -q '^gated_delta_rule,gated_deltanet gdn,' || fail "rules gdn --csv: $("$clattn" rules gdn --csv)"
    "$clattn" make-input kda -s B=2,T=50,H=1,K=8,V=8 -v -o "$work/in" 2>"$work/stderr" || fail "make-input -v"
    grep -qE '^[0-9.e+-]+ MB drawn in [0-9.e+-]+ ms, written in [0-9.e+-]+ ms, [0-9.e+-]+ MB a second$' "$work/stderr" ||
        fail "make-input -v: $(cat "$work/stderr")"
    for spec in reference "$device"; do
        "$clattn" run kda -i "$work/in" -v -o "$work/out" --device "$spec" 2>"$work/stderr" || fail "run -v"
        tail -n 1 "$work/stderr" | grep -qE "$(ended "$work/out" 100)" || fail "run -v on $spec: $(cat "$work/stderr")"
        "$clattn" run kda -i "$work/in" -o "$work/out" --device "$spec" 2>"$work/stderr" || fail "run"
        grep -qE "$(ended "$work/out" 100)" "$work/stderr" && [ "$(wc -l <"$work/stderr")" -eq 1 ] ||
            fail "run on $spec does not end with its one line: $(cat "$work/stderr")"
        "$clattn" run kda -i "$work/in" -q -o "$work/out" --device "$spec" 2>"$work/stderr" || fail "run -q"
        [ -s "$work/stderr" ] && fail "run -q on $spec: $(cat "$work/stderr")"
    done
    CLATTN_TUNING="$work/none.json" "$clattn" run kda -i "$work/in" -v -o "$work/out" --device "$device" 2>"$work/stderr" || fail "no tuning file"
    grep -q "none.json: there is no such file" "$work/stderr" || fail "a file of parameters that is not there: $(cat "$work/stderr")"
    if [ "$device" = "Portable Computing Language" ] && [ -d /proc/self ]; then # /proc has no room for a folder
        POCL_CACHE_DIR=/proc/nowhere "$clattn" devices 2>&1 | grep -q 'PoCL needs a folder that it can write to' ||
            fail "PoCL without a folder: $(POCL_CACHE_DIR=/proc/nowhere "$clattn" devices 2>&1)"
    fi
    verbose() { CLATTN_CACHE_DIR="$work/programs" CLATTN_VERBOSE=1 "$clattn" run kda -i "$work/in" -q -o "$work/out" --device "$device" 2>"$work/stderr"; }
    verbose || fail "CLATTN_VERBOSE"
    grep -qE '^clattn: kernel [a-z_]+ compiled in [0-9]+ ms$' "$work/stderr" ||
        fail "CLATTN_VERBOSE: no line a kernel: $(cat "$work/stderr")"
    verbose || fail "CLATTN_VERBOSE" # all kernels are in the cache
    for line in 'plan .*, tiles by rule of thumb' 'call .*'; do
        grep -qE "^clattn: ${line%% *} kda f32 B=2,T=50,H=1,HQ=1,K=8,V=8: [a-z_]+${line#* .\*}.*, [0-9.e+-]+ ms$" "$work/stderr" ||
            fail "CLATTN_VERBOSE: $(cat "$work/stderr")"
    done
    [ "$(wc -l <"$work/stderr")" -eq 2 ] || fail "CLATTN_VERBOSE: not a line a plan and a line a call: $(cat "$work/stderr")"
    CLATTN_VERBOSE=garbage "$clattn" run kda -i "$work/in" -q -o "$work/out" --device "$device" 2>"$work/stderr"
    [ $? -eq 2 ] && grep -q "CLATTN_VERBOSE is 'garbage', expected 0 or 1" "$work/stderr" || fail "CLATTN_VERBOSE=garbage: $(cat "$work/stderr")"
    if command -v script >/dev/null; then # what takes longer than a second says what it is at
        "$clattn" make-input gated_delta_rule -s B=1,T=100,H=1,K=64,V=64 -o "$work/in" || fail "make-input gated_delta_rule"
        TERM=xterm POCL_EXTRA_BUILD_FLAGS='' POCL_KERNEL_CACHE=0 CLATTN_CACHE_DIR='' script -qec \
            "'$clattn' run gated_delta_rule -i '$work/in' -o '$work/out' --clobber -d '$device'" /dev/null >"$work/bar" </dev/null
        tr '\r' '\n' <"$work/bar" | grep -qE '^(compiling|running)\.\.\. [1-9][0-9]* s' || fail "a long run says nothing: $(cat -v "$work/bar")"
        tr '\r' '\n' <"$work/bar" | tail -n 2 | grep -q ' tokens in ' || fail "a long run does not end with its line: $(cat -v "$work/bar")"
    fi
}

# ---- bad input ----------------------------------------------------------------------------------------------------

# forge FILE HEADER BYTES: a file with that header and that many zero bytes of data
forge()
{
    length=$(printf %s "$2" | wc -c)
    {
        printf "\\$(printf %03o $((length % 256)))\\$(printf %03o $((length / 256)))\\0\\0\\0\\0\\0\\0"
        printf %s "$2"
        head -c "$3" /dev/zero
    } >"$1"
}

# refused WHAT WORD ARGUMENT…: clattn exits with 2, says WORD in one line on stderr, and leaves no file
refused()
{
    what=$1 word=$2
    shift 2
    "$clattn" "$@" >"$work/stdout" 2>"$work/stderr"
    status=$?
    [ $status -eq 2 ] || fail "$what: exit status $status, expected 2"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || fail "$what: not one line on stderr: $(cat "$work/stderr")"
    grep -qe "$word" "$work/stderr" || fail "$what: '$word' is not in: $(cat "$work/stderr")"
    [ -s "$work/stdout" ] && fail "$what: something on stdout: $(cat "$work/stdout")"
    for file in "$work"/out*; do
        [ -e "$file" ] && fail "$what: left $file behind" && rm -f "$file"
    done
}

# refused_file WHAT WORD: clattn run on $work/in
refused_file()
{
    for spec in reference "$device"; do
        refused "$1, $spec" "$2" run delta_rule -i "$work/in" -o "$work/out" --device "$spec"
    done
}

q='"q":{"dtype":"F32","shape":[1,2,1,1],"data_offsets":[0,8]}'
k='"k":{"dtype":"F32","shape":[1,2,1,1],"data_offsets":[8,16]}'
v='"v":{"dtype":"F32","shape":[1,2,1,1],"data_offsets":[16,24]}'
beta='"beta":{"dtype":"F32","shape":[1,2,1],"data_offsets":[24,32]}'

bad_files()
{
    refused "no such file" "$work/in" run delta_rule -i "$work/in" -o "$work/out" --device reference
    refused "a path of 3000 characters" "d/d: No such file" \
        run delta_rule -i "$(printf 'd/%.0s' $(seq 1499))d" -o "$work/out" --device reference
    : >"$work/in"
    refused_file "empty file" "$work/in"
    printf 'abc' >"$work/in"
    refused_file "three bytes" "$work/in"
    printf '\377\377\377\377\377\377\377\177{}' >"$work/in"
    refused_file "header longer than the file" header
    printf '\020\0\0\0\0\0\0\0{}' >"$work/in"
    refused_file "header cut" header
    forge "$work/in" '{"q":' 0
    refused_file "no JSON" JSON
    forge "$work/in" '[1,2]' 0
    refused_file "an array" object
    forge "$work/in" "{$q,$k,$v,$beta}" 31
    refused_file "data cut" beta
    forge "$work/in" "{$q,$k,$v,$beta}" 40
    refused_file "data left over" 40
    forge "$work/in" "{$q,$k,$v}" 24
    refused_file "operand missing" beta
    forge "$work/in" "{$q,$q,$k,$v,$beta}" 32
    refused_file "name twice" "'q'"
    forge "$work/in" "{$q,$k,$v,$(echo "$beta" | sed 's/"beta"/"beta\\u0000"/')}" 32
    refused_file "a name with a NUL" "a NUL in a string"
    dims=1,1,1,1,1,1,1,1
    forge "$work/in" "{$q,$k,$v,$beta,\"x\\\\u0000\":{\"dtype\":\"U8\",\"shape\":[$dims,1],\"data_offsets\":[32,33]}}" 33
    "$clattn" run delta_rule -i "$work/in" -o "$work/out" --device reference -q || fail "nine dims of what is not used"
    rm -f "$work/out"
    forge "$work/in" "{$q,$k,$v,$beta,\"x\":{\"dtype\":\"U8\",\"shape\":[$dims,$dims,$dims,$dims,1],\"data_offsets\":[32,33]}}" 33
    refused_file "33 dims" "'x' has more than 32 dims"
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"F33\",\"shape\":[1,2,1,1],\"data_offsets\":[0,8]}}" 32
    refused_file "unknown dtype" F33
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"I32\",\"shape\":[1,2,1,1],\"data_offsets\":[0,8]}}" 32
    refused_file "integer q" I32
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"F32\",\"shape\":[1,2,1,1],\"data_offsets\":[0,12]}}" 32
    refused_file "offsets do not fit the shape" "'q'"
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"F32\",\"shape\":[1,2,1,-1],\"data_offsets\":[0,8]}}" 32
    refused_file "negative dim" "'q'"
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296,1],\"data_offsets\":[0,8]}}" 32
    refused_file "shape overflows" "'q'"
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"F32\",\"shape\":[2,1,1],\"data_offsets\":[0,8]}}" 32
    refused_file "rank of q" q
    forge "$work/in" "{$k,$v,$beta,\"q\":{\"dtype\":\"F32\",\"shape\":[1,1,1,2],\"data_offsets\":[0,8]}}" 32
    refused_file "q and k disagree" "[qk]"
    forge "$work/in" "{\"q\":{\"dtype\":\"F16\",\"shape\":[1,2,1,1],\"data_offsets\":[28,32]},$(echo "$k,$v,$beta" |
        sed 's/\[8,16\]/[0,8]/; s/\[16,24\]/[8,16]/; s/\[24,32\]/[16,24]/; s/$/,"x":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}/')}" 32
    refused_file "dtypes disagree" "F16\|f16"
    forge "$work/in" "{$q,$k,$v,$beta,\"initial_state\":{\"dtype\":\"I32\",\"shape\":[1,1,1,1],\"data_offsets\":[32,36]}}" 36
    refused_file "state of integers" initial_state
    forge "$work/in" "{$q,$k,$v,$beta,\"initial_state\":{\"dtype\":\"F32\",\"shape\":[2,1,1,1],\"data_offsets\":[32,40]}}" 40
    refused_file "too many states" initial_state
    forge "$work/in" "{$q,$k,$v,$beta,\"cu_seqlens\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[32,44]}}" 44
    refused_file "cu_seqlens do not end at T" cu_seqlens
    forge "$work/in" "{$q,$k,$v,$beta,\"cu_seqlens\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[32,44]}}" 44
    refused_file "cu_seqlens of floats" cu_seqlens
    forge "$work/in" "{$q,$k,$v,$beta,\"cu_seqlens\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[32,36]}}" 36
    refused_file "cu_seqlens of one entry" cu_seqlens
}

bad_usage()
{
    forge "$work/in" "{$q,$k,$v,$beta}" 32
    set -- run delta_rule -i "$work/in" -o "$work/out" --device reference
    "$clattn" "$@" || fail "the good file is refused"
    rm -f "$work/out"
    refused "unknown command" frobnicate frobnicate
    refused "unknown rule" no_such_rule run no_such_rule -i "$work/in" -o "$work/out"
    refused "no input" input run delta_rule -o "$work/out"
    refused "no output" output run delta_rule -i "$work/in"
    refused "unknown option" '--frobnicate' "$@" --frobnicate
    refused "eps of a rule that takes none" "no option eps" "$@" --option eps=1e-6
    refused "eps is no number" "eps is 'small'" "$@" --option eps=small
    refused "slopes of a rule that takes none" "no option slopes" "$@" --option slopes=minimax
    refused "unknown slopes" "lightning or minimax" "$@" --option slopes=steep
    refused "version of something" foo --version foo
    refused "help of no command" "did you mean run" help rn
    refused "help of two" bench help run bench
    "$clattn" help run | grep -q '^clattn run RULE' || fail "help run: $("$clattn" help run)"
    [ "$("$clattn" -V)" = "$("$clattn" --version)" ] || fail "-V: $("$clattn" -V)"
    refused "scale of nothing" "scale is '0.0', expected another number" "$@" --scale 0.0
    refused "mode twice" "mode is given twice" "$@" --mode recurrent -m chunk
    refused "dtype twice" "dtype is given twice" verify --dtype f32 --dtype f16
    refused "no device's name" "device is empty" run delta_rule -i "$work/in" -o "$work/out" --device ""
    refused "a rule's beginning" "did you mean linear_attn" bench lin
    refused "another command's option" "bench takes no option '--budget', which is for tune" bench gdn --budget 5
    refused "an option's beginning" "no 'stat', did you mean state?" bench gdn --option stat=vk
    refused "no option's name" "no 'frobnicate', see .clattn rules RULE" bench gdn --option frobnicate=1
    refused "two outputs" "output is given twice" "$@" -o "$work/out"
    refused "two inputs" "input is given twice" "$@" -i "$work/in"
    "$clattn" >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 2 ] && grep -q '^  clattn make-input ' "$work/stdout" || fail "no command: $(cat "$work/stdout" "$work/stderr")"
    for name in attention sdpa flash_attn; do
        "$clattn" rules $name | grep -qx softmax_attn || fail "$name is not softmax_attn"
    done
    "$clattn" rules gla | tail -n 4 | awk 'length > 80 { exit 1 } /^B batch/ { found = 1 } END { exit !found }' || fail "rules does not end with its letters"
    "$clattn" bench --help | awk 'length > 150 { exit 1 }' || fail "lines of help are too long: $("$clattn" bench --help)"
    refused "another rule's beginning" "did you mean lightning_attn" bench ligh
    refused "an alias's beginning" "did you mean rwkv7" bench rwkv77
    refused "an empty rule" "see .clattn rules" bench ""
    for word in DELTA_RULE Delta-Rule DeltaNet; do
        "$clattn" run $word -i "$work/in" -o "$work/out" --device reference || fail "the rule $word"
        rm -f "$work/out"
    done
    "$clattn" run no_such --frobnicate --help | grep -q '^clattn run RULE' || fail "--help beside what is wrong"
    [ "$("$clattn" version)" = "$("$clattn" --version)" ] || fail "version: $("$clattn" version)"
    refused "unknown mode" sideways "$@" --mode sideways
    refused "chunk -7" -7 "$@" --chunk -7
    refused "scale nan" scale "$@" --scale x1
    refused "normalize for delta_rule" normalize "$@" --normalize
    refused "unknown device" nowhere run delta_rule -i "$work/in" -o "$work/out" --device nowhere
    refused "output in no folder" no/such/folder run delta_rule -i "$work/in" -o "$work/no/such/folder/out" --device reference
    refused "shape without T" T make-input kda --shape B=1,H=1,K=2,V=2 -o "$work/out"
    refused "key_dim 1300" 1300 make-input kda --shape B=1,T=2,H=1,K=1300,V=2 -o "$work/out"
    refused "HQ does not divide H" HQ make-input kda --shape B=1,T=2,H=3,HQ=2,K=2,V=2 -o "$work/out"
    refused "HK does not divide H" HK make-input softmax_attn --shape B=1,T=2,H=3,HK=2,K=2,V=2 -o "$work/out"
    refused "HQ and HK of a rule of a state" kv_heads make-input kda --shape B=1,T=2,H=4,HQ=2,HK=2,K=2,V=2 -o "$work/out"
    refused "TK of a rule of a state" kv_len make-input kda --shape B=1,T=2,H=2,TK=9,K=2,V=2 -o "$work/out"
    refused "HQ of a rule of a list" qk_heads make-input alibi_attn --shape B=1,T=2,H=2,HQ=1,K=2,V=2 -o "$work/out"
    refused "a list's state" state make-input alibi_attn --shape B=1,T=2,H=2,K=2,V=2 --initial-state -o "$work/out"
    packed="make-input fox --shape B=1,T=9,TK=20,H=1,K=2,V=2 --varlen 0,5,9"
    "$clattn" $packed --option kv_lens=on -o "$work/packed" || fail "packed with TK"
    "$clattn" run fox -i "$work/packed" -o "$work/out" -d reference 2>"$work/err" || fail "run of packed with TK"
    but_its_end "$work/err" | grep -q . && fail "packed with TK: $(cat "$work/err")"
    "$clattn" run fox -i "$work/packed" -o "$work/out" -d reference --option kv_lens=off 2>"$work/err" || fail "kv_lens=off"
    grep -q "'kv_lens' is not used" "$work/err" || fail "kv_lens=off: $(cat "$work/err")"
    rm -f "$work/out"
    refused "window of a rule of a state" window make-input kda --shape B=1,T=2,H=2,K=2,V=2 --option window=3 -o "$work/out"
    refused "window of less than none" window make-input alibi_attn --shape B=1,T=2,H=2,K=2,V=2 --option window=-1 -o "$work/out"
    refused "dtype f8" f8 make-input kda --shape B=1,T=2,H=1,K=2,V=2 --dtype f8 -o "$work/out"
    refused "a number of 40 digits" "B is '0*\.\.\.'" \
        make-input kda --shape B=0000000000000000000000000000000000000002,T=2,H=1,K=2,V=2 -o "$work/out"
    refused "budget of words" budget tune --budget soon
    refused "budget of nothing" budget tune --budget 0s
    refused "budget of days" "budget is '1d', expected 1s to 24h" tune --budget 1d
    refused "budget of two days" "budget is '48h', expected 1s to 24h" tune --budget 48h
    refused "budget of an hour, and two actions" "import" tune --budget 1h --show --import "$work/in"
    refused "two actions" import tune --show --import "$work/in"
    refused "no tuning file at all" CLATTN_TUNING tune --export "$work/out"
    CLATTN_TUNING=$work/user.json
    refused "import of no tuning file" "$work/in" tune --import "$work/in"
    refused "export of a file that is not there" "user.json: cannot read: No such file" tune --export "$work/out"
    CLATTN_TUNING=$work
    refused "export of a folder" "$work: cannot read: Is a directory" tune --export "$work/out"
    CLATTN_TUNING=
    refused "cache list and clear" clear cache --list --clear
    refused "varlen backwards" varlen make-input kda --shape B=1,T=9,H=1,K=2,V=2 --varlen 0,5,3,9 -o "$work/out"
}

# ---- metadata -----------------------------------------------------------------------------------------------------

# said FILE KEY: what its metadata say
said()
{
    header "$1" | grep -o '"__metadata__":{[^}]*}' | grep -o "\"$2\":\"[^\"]*\"" | cut -d: -f2 | tr -d '"'
}

# made RULE OPTIONS…: a small file of the rule, in $work/in
made()
{
    rule=$1
    shift
    "$clattn" make-input "$rule" --shape T=5,H=2,K=4,V=4 "$@" -o "$work/in" || fail "make-input $rule $*"
}

# same WHAT OPTION…: run on $work/in without the options gives what it gives with them, and nothing on stderr; on $work/plain it differs
same()
{
    what=$1
    shift
    "$clattn" run "$rule" -i "$work/in" -o "$work/followed" --device reference 2>"$work/stderr" || fail "$what: $(cat "$work/stderr")"
    but_its_end "$work/stderr" | grep -q . && fail "$what: $(cat "$work/stderr")"
    "$clattn" run "$rule" -i "$work/in" -o "$work/given" --device reference "$@" || fail "$what: $*"
    "$clattn" run "$rule" -i "$work/plain" -o "$work/without" --device reference || fail "$what, without"
    numbers "$work/followed" o >"$work/followed.o"
    numbers "$work/given" o | cmp -s - "$work/followed.o" || fail "$what: not what $* gives"
    numbers "$work/without" o | cmp -s - "$work/followed.o" && fail "$what: $* changes nothing"
}

# warned WHAT LINE: run on $work/in succeeds with that one warning
warned()
{
    "$clattn" run gated_delta_rule -i "$work/in" -o "$work/out" --device reference 2>"$work/stderr" || fail "$1: $(cat "$work/stderr")"
    [ "$(but_its_end "$work/stderr")" = "clattn: warning: $work/in: $2" ] || fail "$1: $(cat "$work/stderr")"
    rm -f "$work/out"
}

# poke TENSOR FORMAT [AT]: bytes of a tensor of $work/in, from the first or from AT on, become these, and all else is $work/plain
poke()
{
    cp "$work/plain" "$work/in"
    offset=$(field "$work/in" "$1" data_offsets)
    base=$(($(od -An -t u8 -N 8 "$work/in" | tr -d ' ') + 8 + ${offset%,*} + ${3:-0}))
    printf "$2" | dd of="$work/in" bs=1 seek=$base conv=notrunc 2>/dev/null
}

metadata()
{
    made kda
    cp "$work/in" "$work/plain"
    made kda --option gate_map=sigmoid --option gate_scale=-2.5 --option beta_map=twice-sigmoid --option a_log=on --option dt_bias=on
    same "kda's gates as they are projected" --option gate_map=sigmoid --option gate_scale=-2.5 --option beta_map=twice-sigmoid
    [ "$(said "$work/in" gate_map) $(said "$work/in" beta_map)" = "sigmoid twice-sigmoid" ] || fail "metadata of gates"
    refused "another map" "gate_map sigmoid, the command line exp" run kda -i "$work/in" -o "$work/out" --option gate_map=exp
    refused "a rule without gates" "delta_rule takes no option gate_map" \
        make-input delta_rule --shape T=4,H=1,K=4,V=4 -o "$work/out" --option gate_map=exp
    made gla
    cp "$work/in" "$work/plain"
    made gla --option rope=on --option interleaved=on
    same "rotary positions" --option rope=on --option interleaved=on
    refused "no rotary positions" "rope on, the command line off" run gla -i "$work/in" -o "$work/out" --option rope=off
    refused "rotary positions of a cache" "rope with kv_len" \
        make-input softmax_attn --shape T=4,TK=6,H=1,K=4,V=4 --option rope=on -o "$work/out"
    made linear_attn
    cp "$work/in" "$work/plain"
    made linear_attn --normalize --feature-map elu1 --scale 0.3
    same "linear_attn's options" --normalize --feature-map elu+1 --scale 0.3
    refused "another rule" "rule linear_attn, the command line retention" run retention -i "$work/in" -o "$work/out"
    refused "another feature map" "feature_map elu1, the command line relu" \
        run linear_attn -i "$work/in" -o "$work/out" --feature-map relu
    refused "another scale" "scale 0.29999999999999999, the command line 2" run linear_attn -i "$work/in" -o "$work/out" --scale 2
    refused "no normalize" "normalize on, the command line off" \
        run linear_attn -i "$work/in" -o "$work/out" --option normalize=off
    "$clattn" run linear_attn -i "$work/in" -o "$work/out" --device reference -v 2>&1 | grep -q "in: from its metadata:.* feature_map=elu1" ||
        fail "-v does not say what is followed"
    "$clattn" run linear_attn -i "$work/plain" -o "$work/out" --device reference -v 2>&1 | grep 'metadata' && fail "-v says what is usual"
    echo >"$work/file"
    for command in "run linear_attn -i $work/plain -o $work/out" "bench retention --shape T=4,H=1,K=4,V=4 --mode recurrent --repeat 1" \
        "verify retention --shape T=4,H=1,K=4,V=4 --mode recurrent --dtype f32"; do
        CLATTN_CACHE_DIR="$work/file/cache" "$clattn" $command --device "$device" -v 2>&1 >"$work/stdout" |
            grep -q "clattn: $work/file/cache: compiled programs cannot be kept there: Not a directory" ||
            fail "$command does not say that nothing is cached"
        CLATTN_CACHE_DIR="$work/cache" "$clattn" $command --device "$device" -v 2>&1 >"$work/stdout" | grep "be kept" &&
            fail "$command: a cache that is well"
    done
    rm -f "$work/out"
    "$clattn" run linear_attn -i "$work/plain" -o "$work/out" --device "$device" --qk-l2norm --scale 0.3 ||
        fail "options of which the file says nothing"
    for pair in rule=linear_attn qk_l2norm=on feature_map=identity version="$("$clattn" -V | cut -d' ' -f2)"; do
        [ "$(said "$work/out" "${pair%%=*}")" = "${pair#*=}" ] || fail "the output does not say $pair: $(header "$work/out")"
    done
    said "$work/out" device | grep -q . && said "$work/out" driver | grep -q . || fail "the output's device: $(header "$work/out")"
    said "$work/out" solver | grep -qx 'recurrent\|chunk_scan' || fail "the output's solver: $(header "$work/out")"
    "$clattn" run linear_attn -i "$work/plain" -o "$work/out" --device reference
    [ "$(said "$work/out" solver)" = reference ] || fail "the reference's output: $(header "$work/out")"
    rm -f "$work/out"

    made kda --initial-state
    cp "$work/in" "$work/plain"
    made kda --initial-state --option state=vk
    same "a transposed state" --option state=vk
    refused "a state as it lies" "state vk, the command line kv" run kda -i "$work/in" -o "$work/out" --option state=kv

    forge "$work/in" "{$q,$k,$v,$beta,\"__metadata__\":{\"rule\":\"deltanet\",\"window\":\"wide\"}}" 32
    refused "metadata that cannot be read" "in: its metadata: window is 'wide'" run delta_rule -i "$work/in" -o "$work/out"
    forge "$work/in" "{$q,$k,$v,$beta,\"__metadata__\":{\"window\":\"wide\",\"format\":\"pt\"}}" 32
    "$clattn" run delta_rule -i "$work/in" -o "$work/out" --device reference || fail "another's metadata"
    rm -f "$work/out"

    for others in '"future_option":"on":future_option.,' '"ab":"1","cd":"2","ef":"3":ab. and 2 more'; do
        forge "$work/in" "{$q,$k,$v,$beta,\"__metadata__\":{\"rule\":\"deltanet\",\"seed\":\"1\",${others%:*}}}" 32
        "$clattn" run delta_rule -i "$work/in" -o "$work/out" --device reference 2>"$work/stderr" || fail "a later version's metadata"
        grep -q "^clattn: warning: .*: its metadata have '${others##*:} " "$work/stderr" || fail "a later version's metadata: $(cat "$work/stderr")"
        rm -f "$work/out"
    done
    forge "$work/in" "{$q,$k,$v,$beta,\"__metadata__\":{\"rule\":\"deltanet\",\"window\":\"$(printf '%05000d' 0 | tr 0 x)\"}}" 32
    "$clattn" run delta_rule -i "$work/in" -o "$work/out" --device reference 2>"$work/stderr"
    [ "$(wc -c <"$work/stderr")" -lt 2100 ] && grep -q 'window is .*\.\.\..*expected' "$work/stderr" || fail "a long value: $(cut -c1-200 "$work/stderr")"
    for more in '' ' and 1 more are' ; do
        forge "$work/in" "{$q,$k,$v,$beta,\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[32,33]}${more:+,\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[33,34]\}}}" $((33 + ${#more} / 15))
        "$clattn" run delta_rule -i "$work/in" -o "$work/out" --device reference 2>"$work/stderr" || fail "tensors that are not used"
        [ "$(but_its_end "$work/stderr")" = "clattn: warning: $work/in: tensor 'x'${more:- is} not used by delta_rule" ] || fail "tensors that are not used: $(cat "$work/stderr")"
        rm -f "$work/out"
    done

    made gated_delta_rule
    mv "$work/in" "$work/plain"
    poke q '\0\0\300\177\0\0\200\377\0\0\200\177'
    warned "nan, -inf and inf of q" "tensor 'q' is not finite at 3 of its 40 elements"
    poke g '\0\0\200\377\0\0\200\77\0\0\0\100\0\0\0\200'
    warned "g of -inf, 1, 2 and -0" "tensor 'g' is above 0 at 2 of its 10 elements, expected log-decays of 0 or less"
    poke g '\0\0\200\177'
    warned "g of inf" "tensor 'g' is not finite at 1 of its 10 elements"
}

# ---- diff ---------------------------------------------------------------------------------------------------------

# differs STATUS LINES OPTION…: clattn diff of $work/in and $work/plain exits so, and prints these lines: tensor,result,message
differs()
{
    status=$1 lines=$2
    shift 2
    "$clattn" diff "$work/in" "$work/plain" --csv "$@" >"$work/stdout" 2>"$work/stderr"
    [ $? -eq "$status" ] || fail "diff $lines: exit status is not $status: $(cat "$work/stdout" "$work/stderr")"
    [ -s "$work/stderr" ] && fail "diff $lines: $(cat "$work/stderr")"
    [ "$(sed 's/"[^"]*"/-/g' "$work/stdout" | cut -d, -f1,7,8 | tail -n +2 | paste -sd' ')" = "$lines" ] || fail "diff $lines: $(cat "$work/stdout")"
}

diff_files()
{
    for dtype in f32 f16 bf16; do
        made kda --dtype $dtype
        "$clattn" run kda -i "$work/in" -o "$work/actual" --device "$device" --mode chunk || fail "run $dtype"
        "$clattn" run kda -i "$work/in" -o "$work/expected" --device reference || fail "run $dtype on the reference"
        "$clattn" diff "$work/actual" "$work/expected" >"$work/stdout" || fail "$dtype: $(cat "$work/stdout")"
        [ "$(grep -c ' ok ' "$work/stdout")" -eq 2 ] || fail "$dtype: not o and final_state: $(cat "$work/stdout")"
        [ $dtype = f32 ] && grep -q '0.0e+00' "$work/stdout" && fail "nothing is compared: $(cat "$work/stdout")"
    done
    "$clattn" diff "$work/actual" "$work/expected" --json | tr -d '\t\n' | grep -q '"ok":true,"tensors":\[{.*"ok":true}\]}' ||
        fail "json: $("$clattn" diff "$work/actual" "$work/expected" --json)"

    cp "$work/expected" "$work/plain"
    made kda --initial-state
    "$clattn" diff "$work/in" "$work/plain" --common >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 1 ] && grep -q 'no tensor in common' "$work/stderr" || fail "nothing in common: $(cat "$work/stdout" "$work/stderr")"
    made kda
    mv "$work/in" "$work/plain"
    cp "$work/plain" "$work/in"
    differs 0 "beta,ok, g,ok, k,ok, q,ok, v,ok," # in the order of the file
    poke q '\0\0\0\100' 48 # one element of q[0,1,1,:] is 2
    differs 1 "beta,ok, g,ok, k,ok, q,FAIL, v,ok,"
    grep -q '^q,F32,"\[1,5,2,4\]",[^,]*,1e-05,"\[0,1,1\]",FAIL' "$work/stdout" || fail "not the row of q: $(cat "$work/stdout")"
    differs 0 "beta,ok, g,ok, k,ok, q,ok, v,ok," --bound 100
    poke q '\0\0\300\177' 100
    differs 1 "beta,ok, g,ok, k,ok, q,FAIL,- v,ok," --bound 100
    grep -q '"\[0,3,0\]",FAIL,"not finite: 1 elements, expected 0"' "$work/stdout" || fail "not the row of nan: $(cat "$work/stdout")"
    cp "$work/in" "$work/plain"
    differs 0 "beta,ok, g,ok, k,ok, q,ok,- v,ok,"

    forge "$work/plain" "{$q,$k,$v,$beta}" 32
    forge "$work/in" "{$q,$k,$(echo "$v" | sed 's/\[1,2,1,1\]/[1,1,2,1]/'),$(echo "$beta" | sed 's/beta/alpha/')}" 32
    differs 1 "q,ok, k,ok, v,FAIL,- beta,FAIL,missing alpha,FAIL,not expected"
    grep -q 'expected shape \[1,2,1,1\]' "$work/stdout" || fail "shapes: $(cat "$work/stdout")"
    forge "$work/in" "{$q,$k,$v,$(echo "$beta" | sed 's/F32/I32/')}" 32
    differs 1 'q,ok, k,ok, v,ok, beta,FAIL,-'
    grep -q 'dtype I32, expected F32' "$work/stdout" || fail "dtypes: $(cat "$work/stdout")"
    cp "$work/in" "$work/plain"
    poke beta '\1' 4
    differs 1 'q,ok, k,ok, v,ok, beta,FAIL,1 of 2 elements differ' --bound 1
    # a state in f32 beside a bf16 tensor has bf16's bound: 1 against 1.002
    pair='"s":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"o":{"dtype":"TYPE","shape":[2],"data_offsets":[4,8]}'
    forge "$work/plain" "{$(echo "$pair" | sed s/TYPE/BF16/)}" 8
    cp "$work/plain" "$work/none"
    poke s '\0\0\200\77'
    cp "$work/in" "$work/one"
    poke s '\0\100\200\77'
    mv "$work/one" "$work/plain"
    differs 0 's,ok, o,ok,'
    for file in in plain; do
        sed 's/BF16/U16 /; s/"U16 "/"U16" /' "$work/$file" >"$work/none" && mv "$work/none" "$work/$file"
    done
    differs 1 's,FAIL, o,ok,'
    # F64 as f32; no dims; no elements
    forge "$work/plain" '{"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]}}' 4
    forge "$work/in" '{"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"e":{"dtype":"F32","shape":[2,0],"data_offsets":[8,8]}}' 8
    differs 0 's,ok, e,ok,'
    printf '\0\0\0\0\0\0\360\77' | dd of="$work/in" bs=1 seek=$(($(wc -c <"$work/in") - 8)) conv=notrunc 2>/dev/null
    differs 1 's,FAIL, e,ok,'

    rm -f "$work/in" # what is bad
    refused "a file that is not there" "in: No such file" diff "$work/in" "$work/plain"
    refused "one file" "two files" diff "$work/plain"
    refused "three files" plain diff "$work/plain" "$work/plain" "$work/plain"
    refused "a negative bound" "bound" diff "$work/plain" "$work/plain" --bound -1
    printf abc >"$work/in"
    refused "no safetensors" "in: the file has 3 bytes" diff "$work/plain" "$work/in"
}

# ---- layers -------------------------------------------------------------------------------------------------------

# layer_shape NAME FOLDER: K as in the folder's files, where shapes leave it open
layer_shape()
{
    axis=$("$clattn" layer "$1" --csv | grep ,final_state, | cut -d'"' -f2 | tr -d '[]' | tr , '\n' | grep -nx K | cut -d: -f1)
    echo "K=$(field "$2/$1.run.safetensors" final_state shape | tr -d ' []' | cut -d, -f"$axis")"
}

# run_layer NAME FOLDER
run_layer()
{
    cd "$work" || exit 1
    case $1 in
    lact) how="--option mini_batch=7 --option muon=keller" ;;
    *) how="--shape $(layer_shape "$1" "$2")" ;;
    esac
    for target in "$device" reference; do
        # shellcheck disable=SC2086
        "$clattn" layer "$1" -i "$2/$1.safetensors" -x "$2/$1.run.safetensors" $how -o out.safetensors \
            --device "$target" >/dev/null 2>"$work/stderr" || fail "layer $1 on $target: $(cat "$work/stderr")"
        [ -s "$work/stderr" ] && fail "layer $1 on $target: $(cat "$work/stderr")"
        for tensor in y $("$clattn" layer "$1" --csv | grep -o '^output,final[a-z_0-9]*' | cut -d, -f2); do
            compare out.safetensors "$2/$1.run.safetensors" $tensor 1e-4
        done
        "$clattn" diff out.safetensors "$2/$1.run.safetensors" --common --bound 1e-4 >"$work/stdout" 2>"$work/stderr" &&
            grep -q '^y .* ok ' "$work/stdout" || fail "layer $1 on $target, diff --common: $(cat "$work/stdout" "$work/stderr")"
        rm -f out.safetensors
    done
    if [ -f "$2/$1.gradients.safetensors" ]; then
        # shellcheck disable=SC2086
        "$clattn" layer "$1" -i "$2/$1.safetensors" -x "$2/$1.gradients.safetensors" $how --backward -o gradients.safetensors \
            --device reference >/dev/null 2>"$work/stderr" || fail "layer $1 --backward: $(cat "$work/stderr")"
        "$clattn" diff gradients.safetensors "$2/$1.gradients.safetensors" --common --bound 2e-4 >"$work/stdout" 2>"$work/stderr" ||
            fail "layer $1 --backward, diff: $(cat "$work/stdout" "$work/stderr")"
        [ "$(grep -c '^d_.* ok ' "$work/stdout")" -ge 6 ] || fail "layer $1 --backward writes $(cat "$work/stdout")"
        rm gradients.safetensors
    else
        refused "a backward pass of a layer without one" "layer $1 has no backward pass" \
            layer "$1" -i "$2/$1.safetensors" -x "$2/$1.run.safetensors" --backward -o out.safetensors
    fi
    refused "a layer's tensor of another layer" "tensor '.*' is none of layer" layer "$1" -i "$2/$1.run.safetensors" -o out.safetensors
    refused "a layer's option of a rule" "layer takes no --option taps, expected eps, mini_batch, muon, step_min or step_max" \
        layer "$1" -i "$2/$1.safetensors" -x "$2/$1.run.safetensors" --option taps=3 -o out.safetensors
    [ "$1" = lact ] ||
        refused "a batch of a layer that learns nothing" "learns nothing" layer "$1" -i "$2/$1.safetensors" \
            -x "$2/$1.run.safetensors" --option mini_batch=7 -o out.safetensors
    "$clattn" layer --json | grep -q "\"$1\"" || fail "layer --json lacks $1"
    bad_layer "$1" "$2/$1.safetensors" "$2/$1.run.safetensors"
}

# of CHECKPOINT X: the layer $layer of these on the reference, into $work/out
of()
{
    # shellcheck disable=SC2086
    set -- layer "$layer" -i "$1" -x "$2" -o "$work/out" --device reference $how
    if [ -n "$word" ]; then refused "layer $layer, $word" "$word" "$@"; else "$clattn" "$@" 2>"$work/stderr"; fi
}

# wild FILE TENSOR: what `of` warned of
wild()
{
    [ "$(sed "s/ of its [0-9]* elements\$//" "$work/stderr")" = "clattn: warning: $1: tensor '$2' is not finite at 1" ] ||
        fail "layer $layer, nan in $2: $(cat "$work/stderr")"
}

# bad_layer NAME CHECKPOINT X: prompts and weights that are not right
bad_layer()
{
    layer=$1 checkpoint=$2 prompt=$3
    word='both files are standard input' of - -
    forge "$work/in" '{"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}' 8
    word="in: tensor 'x' is F32 \[2,1\], expected \[B,T,C\]" of "$checkpoint" "$work/in"
    forge "$work/in" '{"x":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]}}' 4
    word="in: tensor 'x' is F32 \[1,1,1\], expected \[1,1,[1-9][0-9]*\]" of "$checkpoint" "$work/in"
    if tensors "$prompt" | grep -qx final_conv_state; then
        sed 's/"final_conv_state"/"conv_state"      /' "$prompt" >"$work/in"
        word="in: tensor 'state' is missing" of "$checkpoint" "$work/in"
    fi
    word=
    cp "$prompt" "$work/plain"
    poke x '\0\0\300\177'
    of "$checkpoint" "$work/in"
    wild "$work/in" x
    [ "$(said "$work/out" version)" = "$("$clattn" -V | cut -d' ' -f2)" ] || fail "layer $layer: the output does not say its version"
    cp "$checkpoint" "$work/plain"
    first=$(header "$checkpoint" | cut -d'"' -f2)
    poke "$first" '\0\0\300\177'
    of "$work/in" "$prompt"
    wild "$work/in" "$first"
    rm -f "$work/out"
}

case $3 in
layer) run_layer "$4" "$5" ;;
run) run_rule "$4" ;;
diff) diff_files ;;
metadata) metadata ;;
bad) bad_files; bad_usage ;;
attn) attn ;;
heads) one_head ;;
formats) formats ;;
*) fail "usage: cli_test.sh CLATTN DEVICE run RULE | metadata | diff | bad | attn | heads | layer NAME FOLDER | formats" ;;
esac
[ $failures -eq 0 ]
