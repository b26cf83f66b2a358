#!/bin/sh
# examples_test.sh CLATTN DEVICE DATA: every example of `clattn COMMAND --help` works as it stands, one after the other in a
# folder that has a checkpoint of mamba2 and its x. Those that need minutes are read, up to the device, which
# is none.
set -eu
program=$1 device=$2 data=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cp "$data/mamba2.safetensors" model.safetensors
cp "$data/mamba2.run.safetensors" x.safetensors
export CLATTN_CACHE_DIR="$folder/cache" CLATTN_TUNING="$folder/tuning.json"
slow='clattn verify --quick
clattn report --quick -o report.json'
fail() { echo "FAILED: $*" >&2; cat out err >&2; exit 1; }

# The command on the device of the tests, where the example names none. (The examples' own word: they are evaluated.)
# shellcheck disable=SC2317
clattn()
{
    case " $* " in *" -d "*) "$program" "$@"; return ;; esac
    if "$program" help "$1" | grep -q -e --device; then "$program" "$@" --device "$device"; else "$program" "$@"; fi
}

"$program" help | sed -n 's/^  clattn \([a-z-]*\) .*/\1/p' >commands
[ "$(wc -l <commands)" -ge 13 ] || { cp commands out; : >err; fail "these are all commands"; }
while read -r command; do
    "$program" "$command" --help | sed -n '/^Examples:/,$s/^  clattn /clattn /p' >"lines.$command"
    [ -s "lines.$command" ] || { : >out; : >err; fail "$command has no examples"; }
    cat "lines.$command"
done <commands >lines
while IFS= read -r line <&3; do
    if echo "$slow" | grep -qxF -e "$line"; then
        eval "$line -d 'no such device'" >out 2>err && fail "$line on no device"
        grep -q 'no such device' err || fail "$line: its words are refused"
        continue
    fi
    eval "$line" >out 2>err </dev/null || fail "$line"
    file=$(echo "$line" | sed -n 's/.* -o \([^ ]*\).*/\1/p')
    if [ -n "$file" ]; then [ -s "$file" ]; else [ -s out ]; fi || fail "$line: writes nothing"
    if grep -v 'budget too small' err | grep -q 'warning:'; then fail "$line: warns"; fi
done 3<lines
echo "$slow" | while IFS= read -r line; do
    grep -qxF -e "$line" lines || fail "'$line' is no example, expected one"
done
