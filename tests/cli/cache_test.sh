# cache_test.sh CLATTN DEVICE: eight processes at once on an empty cache, and what `clattn cache` says of it afterwards.
clattn=$1 device=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CLATTN_CACHE_DIR="$work/cache" POCL_CACHE_DIR="$work/pocl"
mkdir "$work/pocl"
failures=0
fail()
{
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

"$clattn" cache --list >"$work/list" || fail "an empty cache cannot be listed"
"$clattn" make-input retention --shape T=40,H=2,K=16,V=16 -o "$work/in" || fail make-input
"$clattn" run retention -i "$work/in" -o "$work/expected" --device reference || fail "the reference"
for i in 1 2 3 4 5 6 7 8; do
    (
        "$clattn" run retention -i "$work/in" -o "$work/out$i" --device "$device" 2>"$work/err$i"
        echo $? >"$work/status$i"
    ) &
done
wait
for i in 1 2 3 4 5 6 7 8; do
    [ "$(cat "$work/status$i")" = 0 ] || fail "process $i: $(cat "$work/err$i")"
    grep -qv ' tokens in ' "$work/err$i" && fail "process $i said: $(cat "$work/err$i")"
    cmp -s "$work/out1" "$work/out$i" || fail "process $i has another result"
done
"$clattn" cache --json >"$work/list" || fail "clattn cache --json"
entries=$(grep -c '"key"' "$work/list")
[ "$entries" -gt 0 ] || fail "nothing is cached"
grep -q '"intact":.*false' "$work/list" && fail "a damaged entry: $(cat "$work/list")"
[ -z "$(find "$work/cache" -name '*.tmp')" ] || fail "temporary files are left"
"$clattn" cache --clear | grep -q "$entries entries" || fail "clattn cache --clear"
[ -z "$(find "$work/cache" -name '*.clattn')" ] || fail "entries are left"
CLATTN_CACHE_DIR='' "$clattn" cache --list 2>/dev/null && fail "no folder, yet no error"
for command in rules devices "rules --json" cache; do # a reader that has what it wants
    # shellcheck disable=SC2086
    { "$clattn" $command 2>"$work/err"; echo $? >"$work/status"; } | true
    [ "$(cat "$work/status")" = 0 ] && [ ! -s "$work/err" ] || fail "$command into a closed pipe: $(cat "$work/status" "$work/err")"
done
[ $failures -eq 0 ]
