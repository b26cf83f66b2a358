#!/bin/sh
# rank_test.sh CLATTN LIBRARY: the command on machines of several devices, by a libOpenCL that lies (lies.h), whose folder
# is LIBRARY.
clattn=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LD_LIBRARY_PATH="$2" POCL_DEVICES="basic basic basic"

fail() {
    echo "$1"
    cat out err
    exit 1
}

# on LIES COMMAND …
on() {
    CLATTN_TEST_LIES=$1 && export CLATTN_TEST_LIES && shift
    "$clattn" "$@" >out 2>err
}

integrated='platform=Intel(R) OpenCL Graphics;name=small;type=gpu;unified=1;units=96;clock=1300;vendor_id=32902'
discrete='platform=NVIDIA CUDA;name=large;type=gpu;unified=0;units=20;clock=1500;vendor_id=4318'
on "$integrated" make-input retention --shape B=1,T=5,H=1,K=8,V=8 -o in.safetensors || fail "make-input"

on "$integrated|$discrete|name=old;version=OpenCL 1.1 x" devices --csv || fail "devices"
cut -d, -f1,2 out | tr '\n' ' ' | grep -q "0,large 1,small 2,old" || fail "the order of devices"
grep "^2,old" out | grep -q "no: it has no OpenCL 1.2" || fail "the reason why a device cannot be used"

on "$integrated|$discrete" run retention -i in.safetensors -o o.safetensors -v || fail "run on the best device"
grep -q "on large" err || fail "run does not take the best device"
on "$integrated|$discrete;compiler=0" run retention -i in.safetensors -o o.safetensors -v || fail "run beside one without compiler"
grep -q "on small" err || fail "run takes a device without compiler"
on "$integrated|$discrete;context=fails" run retention -i in.safetensors -o o.safetensors -v || fail "run beside one that fails"
grep -q "large is passed over: clCreateContext: CL_OUT_OF_RESOURCES" err && grep -q "on small" err || fail "run does not take the next device"
on "$integrated;available=0" run retention -i in.safetensors -o o.safetensors || fail "run without a device"
grep -q "small cannot be used: .*using the reference" err || fail "run does not say that it takes the reference"

on "$integrated|$discrete;compiler=0" run retention -i in.safetensors -o o.safetensors -d large && fail "a device without compiler runs"
grep -q "large cannot be used: it has no compiler for kernels" err || fail "run does not say why a device cannot be used"
on "$integrated|$discrete;context=fails" run retention -i in.safetensors -o o.safetensors -d large && fail "a device that fails runs"
grep -q "CL_OUT_OF_RESOURCES" err || fail "run does not say that a device fails"
exit 0
