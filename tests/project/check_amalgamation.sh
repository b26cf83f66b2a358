#!/usr/bin/env bash
# check_amalgamation.sh FOLDER LIBS INCLUDES CLATTN CC…: the amalgamation in FOLDER is built with one line, and warns of nothing;
# a program on a device and one without run with it. (Internal names stay global there: hide them with objcopy where they clash.)
set -euo pipefail
folder=$1 libraries=$2 includes=$3 nm=$4
shift 4
cd "$(dirname "$0")/../.."
read -ra libraries <<<"$libraries"
read -ra includes <<<"$includes"
"$@" -std=c11 -O1 -Wall -Wextra -Werror -DCLATTN_STATIC "${includes[@]}" -I"$folder" "$folder/clattn.c" examples/reference_only/main.c \
    -o "$folder/reference_only" "${libraries[@]}" -lm -ldl -pthread
"$folder/reference_only"
"$@" -std=c11 -O1 -DCLATTN_STATIC "${includes[@]}" -I"$folder" -c "$folder/clattn.c" -o "$folder/clattn.o"
"$@" -std=c11 -DCLATTN_STATIC -DCL_TARGET_OPENCL_VERSION=300 "${includes[@]}" -I"$folder" examples/own_context/main.c "$folder/clattn.o" \
    -o "$folder/own_context" "${libraries[@]}" -lOpenCL -lm -ldl -pthread
"$folder/own_context"
"$nm" -g --defined-only "$folder/clattn.o" | awk '$3 ~ /^clattn_/' | grep -q clattn_enqueue_sized
