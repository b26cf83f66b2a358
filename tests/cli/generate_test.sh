#!/usr/bin/env bash
# generate_test.sh CLATTN: the manual page and the completions have every command and option, and their readers find nothing wrong.
set -euo pipefail
clattn=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "$*" >&2; exit 1; }

for kind in man bash zsh fish; do
    "$clattn" --generate $kind >$kind
done
sed 's/\\-/-/g' man >plain
if "$clattn" --generate nothing 2>err; then fail "--generate nothing"; fi
for command in $("$clattn" help | sed -n 's/^  clattn \([a-z-]*\) .*/\1/p'); do
    "$clattn" help "$command" >help
    for option in $(sed -n 's/^ *\(-., \)\?--\([a-z0-9-]*\).*/\2/p' help); do
        grep -q -- "--$option" bash || fail "bash has no --$option"
        grep -q -- "--$option" zsh || fail "zsh has no --$option"
        grep -q -- "seen_subcommand_from $command' -l $option" fish || fail "fish has no $command --$option"
        grep -q -- "--$option" plain || fail "the manual page has no --$option"
    done
    grep -q "^.SS clattn $command\$" plain || fail "the manual page has no $command"
    sed -n '/^Examples:/,$s/^  //p' help >examples
    [ -s examples ] || fail "$command has no examples"
    while IFS= read -r line; do
        sed '1,/^.SH EXAMPLES/d' plain | grep -qxF -- "$line" || fail "the manual page has no $line"
    done <examples
done

for command in diff plot; do
    grep -q "seen_subcommand_from $command' -F" fish || fail "fish completes no files for $command"
done
grep -q "seen_subcommand_from layer' -a" fish && fail "fish completes rules for layer"

bash -n bash
# shellcheck source=/dev/null
source ./bash
completed() { COMP_WORDS=(clattn "$@"); COMP_CWORD=$#; COMPREPLY=(); _clattn; echo " ${COMPREPLY[*]} "; }
[[ "$(completed ver)" == " verify " ]] || fail "bash: ver"
[[ "$(completed run --mo)" == " --mode " ]] || fail "bash: run --mo"
[[ "$(completed bench gated_delta_r)" == " gated_delta_rule " ]] || fail "bash: a rule"
[[ "$(completed verify --dtype b)" == " bf16 " ]] || fail "bash: a type"
if command -v zsh >/dev/null; then zsh -n zsh; else echo "no zsh: its completion is not checked"; fi
if command -v fish >/dev/null; then
    fish -n fish
    fish -c 'source fish; complete -C "clattn run --mo"' | grep -q '^--mode' || fail "fish: run --mo"
else
    echo "no fish: its completion is not checked"
fi
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    warnings=$(LC_ALL=C.UTF-8 MANWIDTH=80 man -l --warnings "$folder/man" 2>&1 >/dev/null)
    [ -z "$warnings" ] || fail "$warnings"
else
    echo "no man: the manual page is not checked"
fi
