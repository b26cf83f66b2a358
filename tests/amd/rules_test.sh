#!/bin/sh
# rules_test.sh CLATTN RULE TYPE: a rule on the emulated device, with the waves of each group in forward and in reverse
# order, by which a missing barrier shows.
clattn=$1

verify() {
    "$clattn" verify "$2" --shape B=1,T=70,H=2,K=32,V=32 --dtype "$3" --jobs 1 --verbose
}

verify "$@" && CLATTN_AMD_REVERSE=1 verify "$@"
