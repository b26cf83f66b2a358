#!/usr/bin/env bash
# compare_sources.sh [--keep FOLDER] OLD_PROGRAM NEW_PROGRAM [CONFIGURATION ...]
#
# Two builds of clattn_dump_kernels, from before and after a change that should leave kernels as they are: the kernels
# that have another text, after the preprocessor and whatever their white space, and those that one of them alone has.
# Options of the compiler count as text. A configuration is what clattn_dump_kernels takes after its folder, in quotes:
# "0 nvidia kda comba"; without any it is every engine. Kernels that one problem has several of by the same name are
# compared as a set. With --keep an empty folder is left with what was compared.
#
#     cmake/compare_sources.sh ../before/build/bin/clattn_dump_kernels build/bin/clattn_dump_kernels "0 nvidia kda"
#
# Exit: 0 all alike, 1 some differ, 2 bad usage. compare_kernels.sh says what differs in instructions.
set -euo pipefail
export LC_ALL=C
keep=
if [ "${1-}" = --keep ] && [ $# -gt 1 ]; then
    keep=$2
    shift 2
fi
if [ $# -lt 2 ] || [ ! -x "$1" ] || [ ! -x "$2" ]; then
    echo "usage: compare_sources.sh [--keep FOLDER] OLD_PROGRAM NEW_PROGRAM [CONFIGURATION ...]" >&2
    exit 2
fi
old_program=$1 new_program=$2
shift 2
[ $# -gt 0 ] || set -- 0 8 "0 nvidia" "0 nvidia_sm80" "0 amd_cdna" "0 amd_rdna3" "0 amd_rdna4" "8 intel_8" "16 intel_16" \
    "0 nvidia_emulated"
work=$keep
if [ -z "$keep" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

# Fills FOLDER, and FOLDER.none with the problems that have no kernels; fails where the program has no such configuration.
dump() { # PROGRAM FOLDER CONFIGURATION
    local status=0
    mkdir -p "$2"
    # shellcheck disable=SC2086 # words
    "$1" "$2" $3 >/dev/null 2>"$2.log" || status=$? # 1: a problem has no plan
    { grep -E ': no (plan|tiles)$' "$2.log" || true; } | sort >"$2.none"
    [ $status -le 1 ]
}

# SOURCE.key: what the kernel is called, a tab, and a hash of its options and its text
condense() { # SOURCE
    if ! "${CC:-gcc}" -E -P -w -x c "$1" -o "$1.i" 2>"$1.err"; then
        echo "$1: $(head -n 1 "$1.err")" >&2
        cp "$1" "$1.i"
    fi
    hash=$({ sed -n 2p "$1" && cat "$1.i"; } | tr -s ' \t\n\r' ' ' | sed 's/ *\([][(){};,]\) */\1/g' | md5sum)
    printf '%s\t%s\n' "$(sed -n '1s|^/\* \(.*\) \*/$|\1|p' "$1")" "${hash%% *}" >"$1.key"
}
export -f condense

# The files of both folders, each before a NUL, less those that both have to the byte
list_others() { # FOLDER
    local old_sums=$1/old.sums new_sums=$1/new.sums
    (cd "$1/old" && find . -name '*.cl' -exec md5sum {} +) | sort >"$old_sums"
    (cd "$1/new" && find . -name '*.cl' -exec md5sum {} +) | sort >"$new_sums"
    cut -c -32 "$old_sums" >"$old_sums.only"
    cut -c -32 "$new_sums" >"$new_sums.only"
    comm -3 "$old_sums.only" "$new_sums.only" | tr -d '\t' | sort -u >"$1/sums"
    join -o 2.2 "$1/sums" "$old_sums" | awk -v folder="$1/old" '{ printf "%s/%s%c", folder, $1, 0 }'
    join -o 2.2 "$1/sums" "$new_sums" | awk -v folder="$1/new" '{ printf "%s/%s%c", folder, $1, 0 }'
}

# "KERNEL of PROBLEM<tab>HASH", of those that are not alike to the byte
keys_of() { # FOLDER
    find "$1" -name '*.key' -exec cat {} + | sort
}

differ=0 kernels=0
for configuration; do
    folder=$work/${configuration// /_}
    in_old=1 in_new=1
    dump "$old_program" "$folder/old" "$configuration" || in_old=0
    dump "$new_program" "$folder/new" "$configuration" || in_new=0
    if [ $in_old$in_new = 00 ]; then
        echo "$configuration: neither has it: $(tail -n 1 "$folder/new.log")"
        continue
    fi
    [ $in_old = 1 ] || echo "$configuration: the old program fails: $(tail -n 1 "$folder/old.log")"
    [ $in_new = 1 ] || echo "$configuration: the new program fails: $(tail -n 1 "$folder/new.log")"
    list_others "$folder" | xargs -0 -r -P 2 -I {} bash -c 'condense "$1"' - {}
    keys_of "$folder/old" >"$folder/old.keys"
    keys_of "$folder/new" >"$folder/new.keys"
    { comm -23 "$folder/old.keys" "$folder/new.keys" | sed 's/^\(.*\)\t.*/- \1/'
      comm -13 "$folder/old.keys" "$folder/new.keys" | sed 's/^\(.*\)\t.*/+ \1/'
      diff "$folder/old.none" "$folder/new.none" | sed -n 's/^\([<>]\)/\1/p' | tr '<>' '-+'
    } >"$folder/differ" || true
    in_old=$(wc -l <"$folder/old.sums") in_new=$(wc -l <"$folder/new.sums") others=$(wc -l <"$folder/differ")
    cat "$folder/differ"
    echo "$configuration: $in_old kernels and $in_new, $others lines differ"
    kernels=$((kernels + in_new)) differ=$((differ + others))
    [ -n "$keep" ] || rm -rf "$folder"
done
echo "$kernels kernels, $differ lines that differ (-: of the old program alone, +: of the new one alone)"
[ "$kernels" -gt 0 ] && [ "$differ" -eq 0 ]
