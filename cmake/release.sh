#!/usr/bin/env bash
# release.sh [--dry-run] OUTPUT
# Makes a release of this tree, whose version is that of include/clattn.h: writes clattn-VERSION.tar.gz and its checksum to OUTPUT and
# sets the tag vVERSION. Refuses if something is not committed, if CHANGELOG.md has no section of the version, or if the tag exists.
# --dry-run prints these reasons, writes the archive and sets no tag.
set -euo pipefail
dry=0
[ "${1-}" != --dry-run ] || { dry=1; shift; }
output=${1:?OUTPUT}
mkdir -p "$output"
output=$(cd "$output" && pwd)
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define CLATTN_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/clattn.h | paste -sd.)

refuse() {
    echo "release.sh: $1" >&2
    [ $dry = 1 ] || exit 1
}
[ -z "$(git status --porcelain --untracked-files=no)" ] || refuse "some changes are not committed"
grep -q "^## \[$version\]" CHANGELOG.md || refuse "CHANGELOG.md has no section [$version]"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "the tag v$version exists"

archive=$output/clattn-$version.tar.gz
git archive --prefix="clattn-$version/" HEAD | gzip -n9 >"$archive"
(cd "$output" && sha256sum "${archive##*/}" >SHA256SUMS)
[ $dry = 1 ] || git tag -a "v$version" -m "clattn $version"
echo "clattn $version: $archive"
