#!/bin/sh
# choices_test.sh CLATTN_CHOICES REFERENCE FACTS...: solvers, kernels and tiles of the plans for the devices of facts
# files are those that the reference has the hashes of.
set -eu
export LC_ALL=C
program=$1 reference=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sort "$reference" >"$work/expected"
"$program" "$@" >"$work/out"
sort "$work/out" >"$work/found"
cmp -s "$work/expected" "$work/found" && exit 0
diff "$work/expected" "$work/found" | grep '^[<>]' | head -n 40 || true
cat <<END
Plans are made of something else than $reference says (<), by device, engine and rule.
What it is, case by case: in a build of the tree before the change, and in this one,
    $program --all $* >FILE
and diff of the two files. If it is meant:
    $program $* >$reference
END
exit 1
