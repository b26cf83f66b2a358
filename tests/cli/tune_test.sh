# tune_test.sh CLATTN DEVICE [SECONDS]: `clattn tune` killed in the middle and resumed, with a budget of so many seconds (12);
# what it found in other processes; its files.
clattn=$1 device=$2 seconds=${3-12}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CONFIG_HOME="$work/config" CLATTN_CACHE_DIR='' CLATTN_SELF_TEST=1
unset CLATTN_TUNING
file=$work/config/clattn/tuning.json
failures=0
fail()
{
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

set -- retention --shape H=2,K=16,V=16 --device "$device"

# killed while a point is being tried, after a few are done
"$clattn" tune "$@" --budget 300s >"$work/out" 2>"$work/err" &
tuner=$!
until [ "$(cat "$file.journal" 2>/dev/null | grep -c '"state":"TIMED"')" -ge 3 ] && tail -n 1 "$file.journal" | grep -q TRYING &&
    kill -STOP $tuner && tail -n 1 "$file.journal" | grep -q TRYING; do # stopped, it is not done in between
    kill -CONT $tuner 2>/dev/null || { fail "nothing happens: $(cat "$work/err")"; break; }
    sleep 0.02
done
"$clattn" tune "$@" --budget 1s >"$work/out" 2>"$work/err" && fail "two searches at once" # the first has the lock
grep -q 'tuning.json.journal: cannot be locked: another `clattn tune` is running' "$work/err" || fail "two at once: $(cat "$work/err")"
kill -9 $tuner
wait $tuner 2>/dev/null
mkdir -p "$work/taken/t.json.journal.lock"
CLATTN_TUNING="$work/taken/t.json" "$clattn" tune "$@" --budget 1s >"$work/out" 2>"$work/err" && fail "a journal that cannot be locked"
grep -q 't.json.journal: cannot be locked: Is a directory' "$work/err" || fail "cannot be locked: $(cat "$work/err")"
known=$(grep -c . "$file.journal")

"$clattn" tune "$@" --budget "${seconds}s" --json >"$work/out" 2>"$work/err" || fail "resumed: $(cat "$work/err")"
grep -q "resuming" "$work/err" || fail "does not resume: $(cat "$work/err")"
grep -q '"resumed":.*true' "$work/out" || fail "knows nothing of the $known lines before"
grep -q 'stopped the process' "$work/out" || fail "the point that was being tried is not set aside"
[ -e "$file.journal" ] && fail "the journal is left"
grep -q '"candidates":' "$work/config/clattn/tuning-report.json" || fail "no report"

# other processes use it, and say so
grep -q '"solver":"chunk_scan"' "$file" || fail "no entry in $file"
"$clattn" bench retention --shape B=1,T=100,H=2,K=16,V=16 --mode chunk --device "$device" --json >"$work/bench" || fail bench
grep -q "tiles by $file" "$work/bench" || fail "the plan does not name $file: $(grep plan "$work/bench")"
CLATTN_TUNING='' "$clattn" bench retention --shape B=1,T=100,H=2,K=16,V=16 --device "$device" --json | grep -q "rule of thumb" ||
    fail "CLATTN_TUNING='' still finds parameters"

# show, export, import, reset
"$clattn" tune --show --device "$device" >"$work/out" || fail "--show"
[ "$(head -n 1 "$work/out")" = "the user's file: $file" ] || fail "--show: $(cat "$work/out")"
[ "$(grep -c "^retention .*scalar+none.*the user's file" "$work/out")" -eq 2 ] || fail "--show: $(cat "$work/out")"
"$clattn" tune --show --device "$device" --json | grep -q "\"path\":.*$file" || fail "--show --json has no path"
"$clattn" tune --export "$work/exported" || fail "--export"
"$clattn" tune --reset --device "$device" | grep -q "2 entries removed" || fail "--reset"
"$clattn" tune --import "$work/exported" | grep -q "2 entries" || fail "--import"
cmp -s "$file" "$work/exported" || fail "exported and imported, the file differs"
"$clattn" tune --submit "$work/submitted" --device "$device" | grep -q "2 entries of " || fail "--submit"
CLATTN_DEVICE_FACTS=$work/submitted "$clattn" devices >"$work/out" || fail "what was submitted has no device"
grep -q '"local_memory":' "$work/submitted" || fail "what was submitted has no facts: $(cat "$work/submitted")"
"$clattn" tune --import "$work/submitted" | grep -q "2 entries" || fail "what was submitted is no table"
cmp -s "$file" "$work/exported" || fail "submitted and imported, the file differs"
CLATTN_TUNING=$work/none "$clattn" tune --submit "$work/other" --device "$device" 2>"$work/err" && fail "submits nothing"
[ -e "$work/other" ] && fail "a file without entries"
echo '{"format": "something"' >"$work/bad"
"$clattn" tune --import "$work/bad" 2>"$work/err" && fail "imports nonsense"
grep -q "$work/bad" "$work/err" || fail "does not name the bad file: $(cat "$work/err")"
cmp -s "$file" "$work/exported" || fail "a bad import changes the file"

# what was measured against the default: parameters that are the default's have no row, others have their times
compared() { "$clattn" tune "$@" --dtype f32 --compare --csv >"$work/out" 2>"$work/err"; }
sed -i 's/"parameters":{[^}]*}/"parameters":{}/' "$file"
compared "$@" || fail "--compare of the default: $(cat "$work/err")"
[ "$(wc -l <"$work/out")" -le 1 ] || fail "--compare compares the default with itself: $(cat "$work/out")"
grep -q "nothing to compare" "$work/err" || fail "--compare says nothing: $(cat "$work/err")"
sed -i '/"chunk_scan"/s/"parameters":{}/"parameters":{"chunk":16}/' "$file"
compared "$@" || grep -q "slower than the default by more than 3 %" "$work/err" || fail "--compare: $(cat "$work/err")"
[ "$(grep -c '^retention,.*,chunk_scan,.*chunk=16' "$work/out")" -eq 1 ] && [ "$(wc -l <"$work/out")" -eq 2 ] ||
    fail "--compare has other rows than that of chunk=16: $(cat "$work/out")"
cp "$work/exported" "$file"

# points built ahead by other processes, into the cache, where the search finds them; what a worker is told is no user's word
for jobs in 1 3; do
    CLATTN_CACHE_DIR=$work/ahead.$jobs "$clattn" tune "$@" --dtype f32 --budget 4s --dry-run --jobs $jobs >"$work/out" 2>&1 ||
        fail "--jobs $jobs: $(cat "$work/out")"
done
[ "$(ls "$work/ahead.3" | wc -l)" -ge 3 ] || fail "nothing is built ahead: $(ls "$work/ahead.3")"
[ ! -d "$work/ahead.1" ] || fail "one process leaves what it only tried: $(ls "$work/ahead.1")"
for point in '' 00 "$(printf '%0700d' 0)" xyz; do
    "$clattn" tune --point "$point" --device "$device" 2>"$work/err" && fail "takes a point of nobody's: $point"
    grep -q "is for workers" "$work/err" || fail "--point: $(cat "$work/err")"
done

# a rule whose columns are pairs has a group, too
"$clattn" tune lru --shape B=1,H=1,K=1,V=32 --dtype f32 --device "$device" --budget 1s --dry-run 2>&1 | grep -q "^complex+none: lru" || fail "lru is not tuned"

# a damaged file is passed over, with a warning that names it
head -c 300 "$work/exported" >"$file"
"$clattn" bench retention --shape B=1,T=100,H=2,K=16,V=16 --device "$device" --json >"$work/bench" 2>"$work/err" || fail "bench with a damaged file"
grep -q "$file" "$work/err" || fail "no word of the damaged file"

# an interrupt keeps what is found, and the length from which plans had the solver: it was not measured anew
sed '/"solver":"chunk_scan"/s/"from_rows":[-0-9]*/"from_rows":33/; /"solver":"recurrent"/s/"from_rows":[-0-9]*/"from_rows":0/' \
    "$work/exported" >"$file"
sed -n 's/.*"solver":"\([a-z_]*\)".*"from_rows":\([-0-9]*\).*/\1 \2/p' "$file" | sort >"$work/lengths"
"$clattn" tune "$@" --budget 300s >"$work/out" 2>"$work/err" &
tuner=$!
until grep -q 'chunk_scan.*ms' "$work/err"; do
    sleep 0.05
    kill -0 $tuner 2>/dev/null || { fail "nothing is found: $(cat "$work/err")"; break; }
done
kill -INT $tuner
wait $tuner
[ $? -eq 130 ] || fail "an interrupt has another exit status: $(cat "$work/err")"
grep -q 'not tuned: no kernel' "$work/err" && fail "an interrupt is taken for a solver's failure: $(cat "$work/err")"
grep -q '"solver":"chunk_scan"' "$file" || fail "an interrupt loses what was found"
cmp -s "$work/exported" "$file" && fail "an interrupt leaves the file as it was"
sed -n 's/.*"solver":"\([a-z_]*\)".*"from_rows":\([-0-9]*\).*/\1 \2/p' "$file" | sort | diff "$work/lengths" - >&2 ||
    fail "an interrupt loses the lengths from which solvers are taken"
grep -q '^clattn: stopping: ' "$work/err" || fail "an interrupt is not acknowledged: $(cat "$work/err")"
[ -s "$file.journal" ] || fail "an interrupt loses the journal"

# a dry run writes nothing
rm -rf "$work/config"
"$clattn" tune "$@" --budget 3s --dry-run >"$work/out" 2>"$work/err" || fail "--dry-run: $(cat "$work/err")"
[ -e "$work/config" ] && fail "a dry run wrote $(find "$work/config")"

# a budget that allows two points says so; -q does not
"$clattn" tune "$@" --budget 1s --dry-run >"$work/out" 2>"$work/err" || fail "1 s: $(cat "$work/err")"
grep -q 'budget too small: [1-9][0-9]* of up to [0-9]* points were tried; --budget is 1 s' "$work/err" || fail "1 s: $(cat "$work/err")"

# a report that finds no room says so
if [ -c /dev/full ]; then
    ln -s /dev/full "$work/full"
    "$clattn" tune "$@" --budget 1s --dry-run --report "$work/full" >"$work/out" 2>"$work/err" && fail "a report to a full device"
    grep -q "$work/full: .*No space left" "$work/err" || fail "a report to a full device: $(cat "$work/err")"
    grep -q "scalar+none.*recurrent" "$work/out" || fail "a report to a full device takes the table along: $(cat "$work/out")"
fi

# a report that cannot be written is known before the search
"$clattn" tune "$@" --budget 300s --report "$work" >"$work/out" 2>"$work/err" && fail "a report to a folder"
grep -q "$work: cannot write" "$work/err" || fail "a report to a folder: $(cat "$work/err")"
grep -q ' ms' "$work/err" && fail "a report to a folder is found out after the search"

"$clattn" tune "$@" --budget 300s --report - >"$work/out" 2>"$work/err" && fail "a report to standard output"
grep -q "report is '-', expected a file" "$work/err" || fail "a report to standard output: $(cat "$work/err")"

# which entry is not understood, and why; a file that is too large is no file that is not there
rm -rf "$work/config"
"$clattn" tune "$@" --budget 1s >"$work/out" 2>"$work/err" || fail "tune: $(cat "$work/err")"
sed 's/"key_dim":[0-9]*/"key_dim":-64/' "$file" >"$work/bad.json"
"$clattn" tune --import "$work/bad.json" >"$work/out" 2>"$work/err" && fail "a key_dim below 1 is imported"
grep -q 'are not understood: entry 1 has no "key_dim" of use' "$work/err" || fail "an entry that is wrong: $(cat "$work/err")"
truncate -s 20M "$work/large.json"
CLATTN_TUNING="$work/large.json" "$clattn" tune --show --device "$device" >"$work/out" 2>"$work/err"
grep -q "large.json: no file that can be read, of at most 16 MiB" "$work/err" || fail "20 MiB: $(cat "$work/err")"

rm -rf "$work/config"

# letters of a shape in any case
"$clattn" make-input linear_attn --shape b=1,t=4,h=2,hq=1,k=8,v=8 -o "$work/small" || fail "lower-case letters of a shape"

# beside the user's parameters, wherever those are
CLATTN_TUNING="$work/other/t.json" "$clattn" tune "$@" --budget 1s >"$work/out" 2>"$work/err" || fail "CLATTN_TUNING: $(cat "$work/err")"
[ -s "$work/other/tuning-report.json" ] || fail "the report is not beside CLATTN_TUNING's file: $(tail -n 1 "$work/err")"
[ -e "$work/config/clattn/tuning-report.json" ] && fail "the report of CLATTN_TUNING's file is in the user's folder"

# which rules a group has, and what of a shape is not used
"$clattn" tune gdn --shape B=1,T=64,H=2,K=16,V=16 --device "$device" --budget 1s --dry-run >"$work/out" 2>"$work/err" ||
    fail "gdn: $(cat "$work/err")"
grep -q '^scalar+key: .*gated_delta_rule' "$work/err" || fail "a group without its rules: $(cat "$work/err")"
grep -q 'T of --shape is not used' "$work/err" || fail "no word of T: $(cat "$work/err")"

# what no memory holds is not tuned: said, a failure, and no report over the last one
mkdir -p "$work/config/clattn"
echo good >"$work/config/clattn/tuning-report.json"
"$clattn" tune retention --shape B=10000000,H=10000,K=256,V=256 --device "$device" --budget 1s >"$work/out" 2>"$work/err" &&
    fail "nothing is tuned, and that is a success"
grep -q 'recurrent: not tuned: ' "$work/err" || fail "does not say what is not tuned: $(cat "$work/err")"
grep -q '^clattn: nothing was tuned' "$work/err" || fail "does not say that nothing is tuned: $(cat "$work/err")"
[ "$(cat "$work/config/clattn/tuning-report.json")" = good ] || fail "an empty report over the last one"

# gradients have entries of their own, which their plans use
export XDG_CONFIG_HOME="$work/backward"
"$clattn" tune retention --pass backward --shape H=1,K=16,V=16 --device "$device" --dtype f32 --budget 2s >"$work/out" 2>"$work/err" ||
    fail "tune --pass backward: $(cat "$work/err")"
grep -q '"solver":"chunk_backward"' "$XDG_CONFIG_HOME/clattn/tuning.json" || fail "no entry of a backward pass: $(cat "$work/out")"
"$clattn" bench retention --pass backward --shape B=1,T=100,H=1,K=16,V=16 --device "$device" --json >"$work/bench" || fail "bench --pass backward"
grep -q "tiles by $XDG_CONFIG_HOME" "$work/bench" || fail "the gradients' plan does not use its entry: $(grep plan "$work/bench")"
[ $failures -eq 0 ]
