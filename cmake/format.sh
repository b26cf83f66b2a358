#!/usr/bin/env bash
# format.sh [--check]: lays out our C sources and kernels with clang-format 14, or with --check says where they are not,
# and where a line of src/ or cl/ is longer than 120 columns: comments and tables are not laid out.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -d '' kernels < <(find cl -name '*.cl' -print0 -o -name '*.clh' -print0 | sort -z)
mapfile -d '' files < <(find include src tests examples bench -name '*.[ch]' -print0 -o -name '*.[ch]pp' -print0 | sort -z)
if [ "${1-}" = --check ]; then
    clang-format-14 --dry-run -Werror "${files[@]}" "${kernels[@]}"
    ! LC_ALL=C.UTF-8 grep -nE '.{121,}' -r src cl --include='*.[ch]' --include='*.def' --include='*.cl' --include='*.clh'
else
    clang-format-14 -i "${files[@]}" "${kernels[@]}"
fi
