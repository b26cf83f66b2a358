#!/usr/bin/env bash
# format.sh [--check]: lays out our C sources with clang-format 14, or with --check says where they are not.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -d '' files < <(find include src tests examples bench -name '*.[ch]' -print0 | sort -z)
if [ "${1-}" = --check ]; then
    clang-format-14 --dry-run -Werror "${files[@]}"
else
    clang-format-14 -i "${files[@]}"
fi
