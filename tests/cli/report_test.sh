#!/bin/sh
# report_test.sh CLATTN DEVICE CC: a report has all sections and names no folder; with kernels that are wrong (PoCL is told that every if is true)
# it fails and says the line that does it again, which fails too; with a driver that crashes each section is a line of it.
set -eu
clattn=$1 device=$2 cc=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "$*" >&2; cat out err >&2; exit 1; }

"$clattn" report --quick -d "$device" -o r.json >out 2>err || fail "a report of a device that is well"
[ "$(grep -c ' ok *$' out)" = 6 ] || fail "six sections"
grep -q '"probe":	"none"' r.json || fail "no engine is probed"
CLATTN_ENGINE=nvidia_emulated "$clattn" devices --probe --json >out 2>err || fail "devices --probe"
grep -q '"engine":	"nvidia_emulated"' out && grep -q '"probe":	"f16 works, bf16 works"' out || fail "what an engine's probe says"
POCL_EXTRA_BUILD_FLAGS="-cl-opt-disable -Dget_local_id(x)=0" CLATTN_ENGINE=nvidia_emulated CLATTN_CACHE_DIR='' "$clattn" devices --probe --csv >out 2>err ||
    fail "devices --probe of an engine whose kernel is refused"
grep -q 'works' out && fail "an engine whose kernel is refused works"
for word in extensions '"serial"' worst_error '"failures":	\[\]' '"solver"'; do
    grep -q "$word" r.json || fail "the report has no $word"
done
if grep -F -e "$folder" -e "$HOME" r.json; then fail "the report names a folder"; fi
"$clattn" report --quick -d "no such device" -o none.json >out 2>err && fail "no such device"
grep -q "expected\|matches none of" none.json || fail "the report does not say that there is no such device"

status=0
POCL_EXTRA_BUILD_FLAGS="-cl-opt-disable -Dif(x)=if(1)" "$clattn" report --quick -d "$device" -o bad.json >out 2>err || status=$?
[ $status = 1 ] || fail "wrong kernels: status $status"
line=$(sed -n 's/^clattn: failed: clattn \(verify .*\) --device .*/\1/p' err | head -1)
[ -n "$line" ] || fail "no line does the failure again"
grep -q "clattn verify" bad.json || fail "the report has no such line"
if (export POCL_EXTRA_BUILD_FLAGS="-cl-opt-disable -Dif(x)=if(1)"; "$clattn" $line --device "$device" >out 2>&1); then
    fail "this passes: $line"
fi
"$clattn" $line --device "$device" >out 2>&1 || fail "with right kernels this fails: $line"

echo 'void abort(void); __attribute__((constructor)) static void crash(void) { abort(); }' >crash.c
"$cc" -shared -fPIC crash.c -o libOpenCL.so.1
status=0
LD_LIBRARY_PATH=$folder "$clattn" report --quick -o crash.json >out 2>err || status=$?
[ $status = 1 ] || fail "a driver that crashes: status $status"
[ "$(grep -c '"ended":	"signal 6' crash.json)" = 6 ] || fail "six sections end by signal 6"
