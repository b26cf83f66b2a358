#!/usr/bin/env bash
# format.sh [--check]: lays out our C sources and kernels with clang-format 14, or with --check says where they are not.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -d '' kernels < <(find cl -name '*.cl' -print0 -o -name '*.clh' -print0 | sort -z)
mapfile -d '' files < <(find include src tests examples bench -name '*.[ch]' -print0 -o -name '*.[ch]pp' -print0 | sort -z)
if [ "${1-}" = --check ]; then
    clang-format-14 --dry-run -Werror "${files[@]}" "${kernels[@]}"
else
    clang-format-14 -i "${files[@]}" "${kernels[@]}"
fi
