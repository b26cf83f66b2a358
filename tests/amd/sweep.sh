#!/bin/sh
# sweep.sh CLATTN FOLDER [PROCESSES [SECONDS]] <JOBS: `clattn verify` of many rules on emulated targets, by hand.
# sweep.sh --list: all jobs, the most valuable first.
# sweep.sh --table FOLDER: what was right, as rows of a table (executed.txt, for docs/devices.md).
#
# A job is a line "TARGET TYPE ENGINE RULE SHAPE"; ENGINE is a matrix engine, none or auto, SHAPE is what `clattn verify
# --shape` takes, or all for its own cases. FOLDER/results.tsv has a line a job: target, type, engine, rule, shape,
# cases, failed, worst error, seconds, and ok, failed or late. FOLDER/TARGET.TYPE.… has all that a failed one printed.
# The waves of a group run in forward order, then in reverse order, by which a missing barrier shows.
# Jobs that cannot begin before SECONDS are over are left out.
self=$0
small=B=1,T=70,H=2,K=32,V=32
rules="linear_attn retention lightning_attn simple_gla gla rwkv6 delta_rule gated_delta_rule kda comba gdn2
    gated_delta_product dplr iplr rwkv7 mlstm precond_gated_delta_rule softmax_attn alibi_attn forgetting_attn path_attn
    deltaformer hgrn lru mamba full_gate short_conv rms_norm gates rope features ssd lact log_linear_attn
    log_linear_gated_delta_rule ttt_linear ttt_mlp titans titans_mlp mesa_net"

# A matrix engine is there for f32 on CDNA alone, and none on gfx1030: without it is the same there.
engines() { # TARGET TYPE
    case $1.$2 in
    gfx1030.* | gfx1?0?.f32) echo auto ;;
    *) echo auto none ;;
    esac
}

list() {
    for engine in auto none; do
        for type in bf16 f32 f16; do
            for target in gfx1100 gfx942 gfx1201 gfx90a gfx1030; do
                case " $(engines $target $type) " in *" $engine "*) ;; *) continue ;; esac
                for rule in $rules; do
                    echo "$target $type $engine $rule $small"
                done
            done
        done
    done
    for type in bf16 f32 f16; do
        for target in gfx1100 gfx942 gfx1201 gfx90a gfx1030; do
            for rule in $rules; do
                echo "$target $type auto $rule all"
            done
        done
    done
}

one() { # CLATTN FOLDER END TARGET TYPE ENGINE RULE SHAPE
    clattn=$1 folder=$2 begin=$(date +%s.%N) left=$(($3 - $(date +%s)))
    [ $left -gt 0 ] || return 0
    output=$folder/$4.$5.$6.$7.$(echo "$8" | tr -d ,=)
    shape="--shape $8"
    [ "$8" != all ] || shape=
    export CLATTN_AMD_TARGET=$4
    [ "$6" = auto ] || export CLATTN_ENGINE=$6
    verify() {
        timeout $left "$clattn" verify "$1" $shape --dtype "$2" --jobs 1 --csv >"$output.csv" 2>>"$output.log"
    }
    verify "$7" "$5" && CLATTN_AMD_REVERSE=1 verify "$7" "$5"
    status=$?
    result=ok
    if [ $status -eq 124 ]; then
        result=late
    elif [ $status -ne 0 ] || grep -q '^amd: ' "$output.log"; then # what the emulator says of a kernel
        result=failed
    fi
    tail -n 1 "$output.csv" | awk -F, -v OFS='\t' -v job="$4 $5 $6 $7 $8" -v result=$result -v begin="$begin" \
        -v end="$(date +%s.%N)" 'BEGIN { gsub(" ", OFS, job) }
        { cases = $3; failed = $4; worst = $3 + 0 ? $5 : "-" }
        END { print job, cases + 0, failed + 0, worst, end - begin, result }' \
        >>"$folder/results.tsv"
    if [ $result = ok ]; then
        rm "$output.csv" "$output.log"
    fi
}

# Rules and cases by target and type: with the target's engine, without, and of the command's own cases
table() {
    awk -F '\t' '
        function cell(key) { return rules[key] ? rules[key] " rules, " cases[key] " cases" : "—" }
        $10 == "ok" {
            key = $1 " " $2 " " ($5 == "all" ? "all" : $3)
            rules[key]++
            cases[key] += $6
        }
        END {
            count = split("gfx1100 gfx1201 gfx942 gfx90a gfx1030", targets, " ")
            split("f32 f16 bf16", types, " ")
            for (i = 1; i <= count; i++)
                for (k = 1; k <= 3; k++) {
                    key = targets[i] " " types[k] " "
                    print "| " targets[i] " | " types[k] " | " cell(key "auto") " | " cell(key "none") " | " \
                        cell(key "all") " |"
                }
        }' "$1/results.tsv"
}

case ${1-} in
--list) list ;;
--table) table "$2" ;;
--one) shift; one "$@" ;;
*)
    mkdir -p "$2"
    xargs -P "${3:-1}" -L 1 sh "$self" --one "$1" "$2" $(($(date +%s) + ${4:-1000000}))
    ! grep -v 'ok$' "$2/results.tsv"
    ;;
esac
