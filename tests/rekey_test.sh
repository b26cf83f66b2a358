#!/bin/sh
# rekey_test.sh REKEY SHIPPED: no entry of the shipped table is stale; and of a copy with two stale hashes REKEY says so,
# and makes the shipped table again.
rekey=$1
shipped=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail()
{
    echo "FAILED: $*"
    exit 1
}

"$rekey" --check "$shipped" || fail "clattn_rekey $shipped, where kernels were changed and are as fast as before"

# A plain kernel's entry and a matrix kernel's
copy=$work/copy.json
awk '/"solver":"recurrent"/ && !plain || /"solver":"matrix_scan"/ && !matrix {
         if (/recurrent/) plain = 1; else matrix = 1
         sub(/"kernel":"......../, "\"kernel\":\"01234567")
     }
     { print }' "$shipped" >"$copy"
cp "$copy" "$work/before"
"$rekey" --check "$copy" >"$work/said"
[ $? -eq 1 ] || fail "stale entries, and --check does not exit with 1"
grep -q " 2 stale" "$work/said" || fail "two stale entries: $(cat "$work/said")"
cmp "$copy" "$work/before" || fail "--check writes"
"$rekey" "$copy" >"$work/said" || fail "$(cat "$work/said")"
cmp "$copy" "$shipped" || fail "the copy is not the shipped table again"

# What it must not guess
sed 's/"group":"scalar+key"/"group":"scalar+lock"/' "$shipped" >"$copy"
"$rekey" "$copy" 2>"$work/said"
[ $? -eq 2 ] || fail "a group that no rule has"
grep -q "scalar+lock" "$work/said" || fail "it does not name the group: $(cat "$work/said")"
echo '{"format"' >"$copy"
"$rekey" "$copy" 2>"$work/said"
[ $? -eq 2 ] || fail "no JSON"
"$rekey" "$work/none" 2>"$work/said"
[ $? -eq 2 ] || fail "no file"
exit 0
