#!/usr/bin/env bash
# check_conan.sh OUTPUT: conan (77 without it) packages the tree with the system's libraries, and its test package uses that.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:$PWD/build-tools/bin
command -v conan >/dev/null || { echo "no conan"; exit 77; }
mkdir -p "$1"
export CONAN_HOME=$1/home
conan profile detect --force >/dev/null 2>&1
conan create cmake/packaging/conan -o "&:system=True" -o "&:command=False" -c tools.build:jobs=2 \
    -c "tools.cmake.cmake_layout:test_folder=$1/test" --no-remote >"$1/log" 2>&1 ||
    { tail -40 "$1/log"; exit 1; }
grep '^clattn .*: 1 3 6' "$1/log"
