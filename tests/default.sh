#!/bin/sh
# default.sh COMMAND [ARGUMENT…]: runs it as users have the library, in folders of its own: with cache, tuning and
# self-test. PoCL's own cache stays where it is: what another test has compiled it need not compile again.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset CLATTN_CACHE_DIR CLATTN_TUNING CLATTN_SELF_TEST CLATTN_ENGINE
export POCL_CACHE_DIR="${POCL_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pocl/kcache}"
export XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config" CLATTN_TEST_FOLDER="$work/test"
mkdir "$work/cache" "$work/config" "$work/test" || exit 1
"$@" || exit
# A run that left nothing behind had no cache
[ -n "$(find "$work/cache/clattn" -type f)" ] || { echo "no entry in the cache"; exit 1; }
