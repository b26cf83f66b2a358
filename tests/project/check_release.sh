#!/usr/bin/env bash
# check_release.sh OUTPUT: a dry run of release.sh writes an archive of the tree (77 outside of a git tree).
set -euo pipefail
cd "$(dirname "$0")/../.."
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git tree"; exit 77; }
output=$1
rm -rf "$output"
bash cmake/release.sh --dry-run "$output"
(cd "$output" && sha256sum -c SHA256SUMS)
tar -tzf "$output"/clattn-*.tar.gz >"$output/list"
for file in CMakeLists.txt include/clattn.h include/clattn.hpp LICENSE cl/README.md src/cli/main.c; do
    grep -q "^clattn-[0-9.]*/$file\$" "$output/list" || { echo "the archive has no $file"; exit 1; }
done
