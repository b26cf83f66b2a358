#!/usr/bin/env bash
# check_cpp.sh PREFIX SOURCE OUTPUT DEVICE [FLAG…]
# Builds SOURCE against the installed clattn.hpp with g++ and clang++, those that are there, and runs it without OpenCL and on DEVICE;
# the header also without exceptions, and without OpenCL's own.
set -euo pipefail
prefix=$1 source=$2 output=$3 device=$4
shift 4
mkdir -p "$output"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name clattn.pc)")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(pkg-config --variable=libdir clattn)
export LD_LIBRARY_PATH
read -ra compile <<<"$(pkg-config --cflags clattn)"
read -ra link <<<"$(pkg-config --libs clattn) -lOpenCL"
strict=(-std=c++17 -Wall -Wextra -Wshadow -Wconversion -Wold-style-cast -Wdouble-promotion -Werror "$@")
compilers=0
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || continue
    compilers=$((compilers + 1))
    for exceptions in -fexceptions -fno-exceptions; do
        echo '#include <clattn.hpp>' | "$compiler" "${strict[@]}" $exceptions "${compile[@]}" -fsyntax-only -x c++ -
    done
    for element in float:0 double:1; do # what no operand has does not compile
        echo "#include <clattn.hpp>
        clattn_operand at(std::vector<${element%:*}> &v) { return clattn::on_host(CLATTN_Q, v); }" |
            "$compiler" "${strict[@]}" "${compile[@]}" -fsyntax-only -x c++ - 2>"$output/errors" && refused=0 || refused=1
        [ $refused = ${element#*:} ] || { cat "$output/errors"; echo "operands of ${element%:*}"; exit 1; }
    done
    "$compiler" "${strict[@]}" "${compile[@]}" "$source" "${link[@]}" -o "$output/$compiler"
    "$output/$compiler" reference
    "$output/$compiler" "$device"
    echo "$compiler: passed"
done
[ $compilers -gt 0 ] || { echo "neither g++ nor clang++ is there" >&2; exit 1; }
