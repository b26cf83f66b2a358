#!/usr/bin/env bash
# release.sh [--dry-run] OUTPUT [URL-OF-ARCHIVES]
# A release of this tree, whose version is include/clattn.h's: OUTPUT gets clattn-VERSION.tar.gz, its checksum, the recipes of
# cmake/packaging filled for it at URL-OF-ARCHIVES/clattn-VERSION.tar.gz, and the tag vVERSION is made. Refused where something is
# not committed, CHANGELOG.md has no section of the version, or the tag is there; --dry-run says so, makes all the rest, and no tag.
set -euo pipefail
dry=0
[ "${1-}" != --dry-run ] || { dry=1; shift; }
output=${1:?OUTPUT} url=${2:-https://example.invalid/releases}
mkdir -p "$output"
output=$(cd "$output" && pwd)
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define CLATTN_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/clattn.h | paste -sd.)

refuse() {
    echo "release.sh: $1" >&2
    [ $dry = 1 ] || exit 1
}
[ -z "$(git status --porcelain --untracked-files=no)" ] || refuse "there are changes that are not committed"
grep -q "^## \[$version\]" CHANGELOG.md || refuse "CHANGELOG.md has no section [$version]"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "the tag v$version is there"

archive=$output/clattn-$version.tar.gz
git archive --prefix="clattn-$version/" HEAD | gzip -n9 >"$archive"
sha256=$(sha256sum "$archive" | cut -d' ' -f1)
sha512=$(sha512sum "$archive" | cut -d' ' -f1)
(cd "$output" && sha256sum "${archive##*/}" >SHA256SUMS)
for template in vcpkg/vcpkg.json vcpkg/portfile.cmake homebrew/clattn.rb arch/PKGBUILD; do
    mkdir -p "$output/${template%/*}"
    sed -e "s|@VERSION@|$version|g; s|@URL@|$url/clattn-$version.tar.gz|g; s|@HOMEPAGE@|${url%/releases}|g" \
        -e "s|@SHA256@|$sha256|g; s|@SHA512@|$sha512|g" "cmake/packaging/$template.in" >"$output/$template"
done
[ $dry = 1 ] || git tag -a "v$version" -m "clattn $version"
echo "clattn $version: $archive"
